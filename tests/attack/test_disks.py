"""Disks that are full, break or may not be written: 503 and nothing stored, or a later try; reads go on.

A full disk is a small one of its own, mounted where a test may; where it may not, and beside it, the limit
that the system sets to a process's files, which can be changed while it runs.
"""

import hashlib
import resource
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import httpx2
import psycopg
import pytest

from servers import checker
from servers.processes import family
from servers.recordings import recording as flac
from servers.service import TENUTO, RunningService
from servers.shots import Shots
from servers.speed import HANG_S
from servers.voices import headers_of
from servers.voices import recording as wav

MakeService = Callable[..., RunningService]
CREDIT_MICROS = 1_000_000
SIZE_MIB = 32
WHILE_FULL_S = 1.5
PLACES = {
    "blob.before_write": "ENOSPC",
    "blob.before_fsync": "EIO",
    "blob.before_rename": "EROFS",
    "blob.before_folder_fsync": "EIO",
}
"""Where a disk can fail, and how."""


class Disk(Protocol):
    """A disk that a test fills."""

    def fill(self, service: RunningService) -> None: ...

    def free(self, service: RunningService) -> None: ...


@dataclass(frozen=True)
class Mounted:
    """A file system of a few MiB, in memory."""

    folder: Path

    def fill(self, service: RunningService) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as file:
            for block in (bytes(1 << 16), bytes(1 << 9), b"x"):
                try:
                    while True:
                        file.write(block)
                except OSError:
                    continue

    def free(self, service: RunningService) -> None:
        (self.folder / "filler").unlink()


class Limited:
    """No file of the service's processes may grow by a byte, or be written at all."""

    def fill(self, service: RunningService) -> None:
        self._limit(service, 0)

    def free(self, service: RunningService) -> None:
        self._limit(service, resource.RLIM_INFINITY)

    def _limit(self, service: RunningService, size_bytes: int) -> None:
        for pid in family(service).living():
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A folder that is a disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tenuto", str(folder)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting needs root; the limit on the size of files is tested in any case")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize(
    ("kind", "dialect"),
    [("mounted", "sqlite"), ("limited", "postgresql")],
    indirect=["dialect"],
)
def test_a_full_disk_stores_nothing_and_reads_go_on(
    make_service: MakeService,
    request: pytest.FixtureRequest,
    fresh_url: str | None,
    kind: str,
    tmp_path: Path,
) -> None:
    """Uploads and, where the records lie there too, jobs are refused with 503; what was stored is read.

    A job that runs meanwhile does not succeed before its bytes are there; with room again it does, and
    everything else is as if nothing had been (P1, P3, P5, P14).
    """
    disk: Disk = Mounted(request.getfixturevalue("mounted")) if kind == "mounted" else Limited()
    folder = disk.folder / "data" if isinstance(disk, Mounted) else tmp_path / "data"
    service = make_service(folder, fresh_url)
    service.start()
    service.key = service.make_key(credit="1")
    before = service.wait(service.submit("Before."))
    running = service.submit(f"[fake:sleep=3] {'Much to say. ' * 300}End.")
    service.wait(running, states=("running",))
    disk.fill(service)
    with service.client() as http:
        refused = [_upload(http), _upload_voice(http)]
        submitted = _submit(http, "while full")
        reads = [
            http.get("/v1/jobs"),
            http.get(f"/v1/jobs/{before['id']}"),
            http.get("/v1/voices"),
            http.get("/livez"),
        ]
        content = http.get(f"/v1/artifacts/{before['artifacts'][0]['id']}/content")
        time.sleep(WHILE_FULL_S)
        meanwhile = http.get(f"/v1/jobs/{running}").json()["state"]
        disk.free(service)
        again = [_eventually(_upload, http), _eventually(_upload_voice, http)]
        accepted = _eventually(lambda each: _submit(each, "while full"), http)
        ended = [service.wait(job_id)["state"] for job_id in (running, accepted.json()["id"])]

    assert [503, 503] == [answer.status_code for answer in refused]
    assert (503 if fresh_url is None else 202) == submitted.status_code
    assert all("retry-after" in answer.headers for answer in refused)
    assert [200] * 4 == [answer.status_code for answer in reads]
    assert before["artifacts"][0]["sha256"] == hashlib.sha256(content.content).hexdigest()
    assert meanwhile in ("running", "queued")
    assert [201, 201, 202] == [answer.status_code for answer in (*again, accepted)]
    assert ["succeeded"] * 2 == ended
    _check(service, jobs=3)


def test_each_fault_of_the_disk_is_met(make_service: MakeService, tmp_path: Path) -> None:
    """ENOSPC, EIO of a fsync, a disk that turns read-only: at uploads a 503 and nothing stored, at the bytes
    of segments and results another try; no artifact is shown before its bytes are durable (P5, P11).
    """
    shots = Shots(tmp_path / "shots")
    service = make_service(**shots.variables)
    service.start()
    service.key = service.make_key(credit="10")
    told = []
    with service.client() as http:
        for place, fault in PLACES.items():
            for upload in (_upload, _upload_voice):
                shots.arm(place, f"1:raise={fault}")
                refused, again = upload(http), upload(http)
                told.append((refused.status_code, refused.json()["error"]["code"], again.status_code))
            for text, stream in (("Several segments, one by one. Each its own. End.", True), ("One.", False)):
                shots.arm(place, f"1:raise={fault}")
                job_id = service.submit(text, stream=stream)
                assert shots.fired(place, 10) is not None
                assert "succeeded" == service.wait(job_id)["state"]

    assert [(503, "storage_failed", 201)] * 2 * len(PLACES) == told
    _check(service, jobs=2 * len(PLACES), credit_micros=10_000_000)


def test_records_that_may_not_be_written_are_read(make_service: MakeService, server_url: str) -> None:
    """PostgreSQL turns read-only: submissions are 503, reads go on, and later all does."""
    service = make_service(None, server_url)
    service.start()
    service.key = service.make_key(credit="1")
    done = service.wait(service.submit("Before."))
    name = server_url.split("/")[3].split("?", maxsplit=1)[0]
    with psycopg.connect(server_url, autocommit=True) as connection, service.client() as http:
        connection.execute(f"alter database {name} set default_transaction_read_only = on".encode())
        _reconnect(connection, name)
        refused = _submit(http, "later")
        reads = [http.get("/v1/jobs"), http.get(f"/v1/jobs/{done['id']}"), http.get("/v1/account/balance")]
        connection.execute("begin read write")
        connection.execute(f"alter database {name} reset default_transaction_read_only".encode())
        connection.execute("commit")
        _reconnect(connection, name)
        later = _eventually(lambda each: _submit(each, "later"), http)
        ended = service.wait(later.json()["id"])["state"]

    assert (503, "unavailable") == (refused.status_code, refused.json()["error"]["code"])
    assert [200] * 3 == [answer.status_code for answer in reads]
    assert (202, "succeeded") == (later.status_code, ended)
    checker.check_everything(service, jobs=2, credit_micros=CREDIT_MICROS)


@pytest.mark.parametrize("damage", ["read-only", "full"])
def test_a_disk_that_cannot_be_written_is_named_at_the_start(mounted: Path, damage: str) -> None:
    """`tenuto serve` says in one line what is wrong with its folder, and ends with 1."""
    if damage == "full":
        (mounted / "data").mkdir()
        Mounted(mounted).fill(RunningService(mounted / "data"))
    else:
        subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    service = RunningService(mounted / "data")
    done = subprocess.run(
        [TENUTO, "serve", "--port", "0"], env=service.environment, capture_output=True, text=True, timeout=120
    )

    assert 1 == done.returncode
    assert 1 == len(done.stderr.strip().splitlines()), done.stderr
    assert str(mounted) in done.stderr


def _check(service: RunningService, *, jobs: int, credit_micros: int = CREDIT_MICROS) -> None:
    """The checker, all jobs succeeded, and no file that nobody refers to."""
    checker.check_audit(service)
    if service.database_url is None:
        checker.check_integrity(service)
    database = checker.open_records(service)
    states = checker.rows(database, "select state, count(*) as n from job group by state")
    checker.check_balances(database, credit_micros)
    left = checker.check_blobs(service, database)
    database.close()

    assert [{"state": "succeeded", "n": jobs}] == states
    assert 0 == left


def _submit(http: httpx2.Client, key: str) -> httpx2.Response:
    body = {"model": "fake/speech", "parameters": {"text": "Hold."}}
    return http.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})


def _upload(http: httpx2.Client) -> httpx2.Response:
    content = flac(words=40)
    checksum = hashlib.sha256(content).hexdigest()
    headers = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": checksum}
    return http.post("/v1/input-artifacts", content=content, headers=headers)


def _upload_voice(http: httpx2.Client) -> httpx2.Response:
    content = wav(uuid.uuid4().int % 65536, seconds=5, rate=48_000)
    return http.post("/v1/voices", content=content, headers=headers_of(content))


def _eventually(ask: Callable[[httpx2.Client], httpx2.Response], http: httpx2.Client) -> httpx2.Response:
    """The answer once it is no 503."""
    until = time.monotonic() + HANG_S
    while (answer := ask(http)).status_code == 503 and time.monotonic() < until:
        time.sleep(0.1)
    return answer


def _reconnect(connection: "psycopg.Connection[Any]", name: str) -> None:
    """Everybody else connects anew, and sees the database's settings."""
    connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = %s and pid <> pg_backend_pid()",
        [name],
    )
