"""`tenuto migrate-to`: from SQLite and a folder to PostgreSQL and a bucket, killed on its way, compared."""

import itertools
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import obstore
import pytest
from obstore.store import S3Store

from servers.postgres import PostgresServer
from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer
from servers.service import TENUTO, RunningService
from tenuto.backup.move import shown
from tenuto.blobs.s3_place import Credentials, S3Place, client
from tenuto.db.database import open_database

PRICES = '[models."fake/speech"]\nprice = "0.05"\n[models."fake/metered-speech"]\nprice = "0.05"\n'
STEPS = ("move.mid_blobs", "move.before_rows", "move.before_done")
_numbers = itertools.count(1)

Target = tuple[str, str]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that was stopped with results, segments, money and a job that waits for an operator."""
    folder = tmp_path_factory.mktemp("history")
    (folder / "tenuto.toml").write_text(PRICES)
    place = RunningService(folder / "data", variables={"TENUTO_CONFIG": str(folder / "tenuto.toml")})
    place.start()
    place.key = place.make_key(credit="100")
    for number in range(3):
        place.wait(place.submit(f"Sentence {number}, 第 {number} 句.", stream=True))
    place.wait(place.submit("[fake:unknown] Word.", model="fake/metered-speech"))
    place.stop()
    yield place


@pytest.fixture
def place(history: RunningService, seaweed: SeaweedServer, tmp_path: Path) -> RunningService:
    """A copy of it that a test may move; it knows the store's address and keys."""
    shutil.copytree(history.folder, tmp_path / "data")
    # To its lock the copy is another machine, whose worker might still live.
    database = open_database("sqlite:///tenuto.db", folder=tmp_path / "data")
    database.write(lambda tx: tx.do("update worker set seen_at = 0"))
    database.close()
    variables = {**history.variables, "TENUTO_S3_ENDPOINT": seaweed.endpoint, **seaweed.variables}
    return replace(history, folder=tmp_path / "data", variables=variables, process=None, port=0)


@pytest.fixture
def make_target(postgres_server: PostgresServer, seaweed: SeaweedServer) -> Callable[[], Target]:
    """The URL of an empty database, and an empty prefix of a bucket that is there."""
    obstore.put(_bucket(seaweed), "made", b"")

    def make() -> Target:
        name = f"moved_{next(_numbers)}"
        postgres_server.run(f"create database {name}")
        return postgres_server.url(name), f"s3://moved/{name.replace('_', '-')}"

    return make


def _bucket(seaweed: SeaweedServer) -> S3Store:
    keys = Credentials(ACCESS_KEY, SECRET_KEY)
    return client(S3Place(bucket="moved", endpoint=seaweed.endpoint, credentials=keys))


def move(
    place: RunningService, target: Target, *extra: str, failpoint: str = ""
) -> "subprocess.CompletedProcess[str]":
    armed = {"TENUTO_FAILPOINT": failpoint} if failpoint else {}
    return subprocess.run(
        [TENUTO, "migrate-to", "--database", target[0], "--blobs", target[1], *extra],
        env=place.environment | armed,
        capture_output=True,
        text=True,
        timeout=120,
    )


def refused(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line that says why."""
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def moved(place: RunningService, target: Target, folder: Path) -> RunningService:
    """The service in its new place, with a data folder of its own."""
    variables = {**place.variables, "TENUTO_BLOBS": target[1]}
    return replace(place, folder=folder, database_url=target[0], variables=variables, said=[])


@contextmanager
def lone_api(place: RunningService) -> Iterator[str]:
    """`tenuto api` on this place, without a worker; gives its address."""
    with place.log_path.open("a") as log:
        process = subprocess.Popen(
            [TENUTO, "api", "--port", "0"],
            env=place.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        assert "http://" in first, place.log_path.read_text()[-2000:]
        yield "http://" + first.split("http://")[1].split(",")[0]
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def results(place: RunningService) -> dict[str, Any]:
    return results_at(place.url, place.key)


def results_at(url: str, key: str) -> dict[str, Any]:
    """What its callers read: every operation, and the bytes of every artifact."""
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        jobs = client.get("/v1/jobs?limit=100").json()["data"]
        artifacts = [artifact["id"] for job in jobs for artifact in job["artifacts"]]
        contents = {each: client.get(f"/v1/artifacts/{each}/content").content for each in artifacts}
        balance = client.get("/v1/account/balance").json()
    return {"jobs": jobs, "contents": contents, "balance": balance}


def test_a_service_is_moved_though_it_is_killed_at_every_step(
    place: RunningService, make_target: Callable[[], Target], tmp_path: Path
) -> None:
    """Said again it goes on; all rows, bytes, money and what waits for an operator are there; the old place
    starts no more, and the new one works (P21).
    """
    target = make_target()
    place.start()
    before = results(place)
    running = refused(move(place, target))
    place.stop()

    killed = [move(place, target, failpoint=f"{step}:1:kill").returncode for step in STEPS]
    half = refused(place.command("serve", "--port", "0", check=False))
    other = refused(move(place, make_target()))
    done = move(place, target)
    left = refused(place.command("serve", "--port", "0", check=False))
    again = refused(move(place, target))
    there = moved(place, target, tmp_path / "there")
    audit = there.command("audit", "--deep")
    waiting = there.command("recover", "list")
    there.start()
    after = results(there)
    newest = there.wait(there.submit("And on."))
    there.stop()

    assert [-signal.SIGKILL] * len(STEPS) == killed
    assert (0, True) == (done.returncode, done.stdout.startswith("moved and compared: "))
    assert before == after
    assert "succeeded" == newest["state"]
    assert "agrees" in audit.stdout
    assert "fake/metered-speech" in waiting.stdout
    assert not (place.folder / "move.unfinished").exists()
    lines = {running: "in use by another", half: "is being moved", other: "is unfinished"}
    lines |= {left: "was moved", again: "already"}
    assert [] == [line for line, told in lines.items() if told not in line]


def test_a_service_moves_there_and_back_unless_an_api_is_left(
    place: RunningService, make_target: Callable[[], Target], tmp_path: Path
) -> None:
    """An API alone, which has no row as a worker has, is noticed on either database, though it works from a
    data folder of its own; from PostgreSQL and a bucket everything comes back to SQLite and a folder.
    """
    target, home = make_target(), ("sqlite:///tenuto.db", "directory")
    there, elsewhere = moved(place, target, tmp_path / "there"), moved(place, target, tmp_path / "elsewhere")
    back = replace(place, folder=there.folder)

    with lone_api(place):
        forth_refused = refused(move(place, target))
    forth = move(place, target)
    with lone_api(elsewhere) as url:
        before = results_at(url, place.key)
        back_refused = refused(move(there, home))
    came_back = move(there, home)
    audit = back.command("audit", "--deep")
    with lone_api(back) as url:
        after = results_at(url, place.key)

    assert ["a `tenuto api` or worker still works with"] * 2 == [
        line.removeprefix("tenuto: ")[:41] for line in (forth_refused, back_refused)
    ]
    assert [0, 0] == [forth.returncode, came_back.returncode], came_back.stderr
    assert "agrees" in audit.stdout
    assert before == after


def test_nothing_is_moved_onto_something_else(
    place: RunningService,
    make_target: Callable[[], Target],
    postgres_server: PostgresServer,
    seaweed: SeaweedServer,
) -> None:
    """A target that is not empty, the same place, a database that is away: a line each, and no mark."""
    target, used = make_target(), make_target()
    postgres_server.run("create table of_another (id int)", used[0].rpartition("/")[2].partition("?")[0])
    prefix = used[1].removeprefix("s3://moved/")
    obstore.put(_bucket(seaweed), f"{prefix}/v2/blob_01m80pvn5r1f38djbjeemsc8v2", b"of another")
    lines = {
        "is not empty; a service is moved to a database": (used[0], target[1]),
        "is not empty; a service is moved to a prefix": (target[0], used[1]),
        "name another database": ("sqlite:///tenuto.db", target[1]),
        " refuses us: database ": (target[0].replace("moved", "nowhere"), target[1]),
    }

    said = {told: refused(move(place, onto)) for told, onto in lines.items()}

    assert [] == [line for told, line in said.items() if told not in line]
    assert not (place.folder / "move.json").exists()


def test_what_differs_is_not_moved(
    place: RunningService, make_target: Callable[[], Target], tmp_path: Path
) -> None:
    """Bytes that are missing stop a move, until the operator says to leave them; a row that somebody changed
    in the new place stops it until it is changed back.
    """
    target = make_target()
    [blob, *_] = sorted((place.folder / "blobs").glob("*/blob_*"))
    blob.unlink()
    rename = "update job set model = :now where model = :before"

    damaged = refused(move(place, target))
    killed = move(place, target, "--leave-out-damaged", failpoint="move.after_rows:1:kill")
    database = open_database(target[0])
    database.write(lambda tx: tx.do(rename, now="another", before="fake/speech"))
    changed = refused(move(place, target, "--leave-out-damaged"))
    database.write(lambda tx: tx.do(rename, now="fake/speech", before="another"))
    database.close()
    done = move(place, target, "--leave-out-damaged")
    audit = moved(place, target, tmp_path / "there").command("audit", "--deep", check=False)

    assert f"1 blobs are missing or damaged: {blob.name}" in damaged
    assert -signal.SIGKILL == killed.returncode
    assert "these tables differ: job (4 and 4 rows)" in changed
    assert (0, True) == (done.returncode, "1 damaged ones are left out" in done.stdout)
    assert audit.stdout.startswith(f"{blob.name}: the bytes are not there")
    assert 1 == len(audit.stdout.splitlines())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///tenuto.db", "sqlite:///tenuto.db"),
        ("postgresql://me:se/c:r@t@db.example:5432/x?sslmode=require", None),
        ("postgresql://me:secret@db.example:5432/x", "postgresql://me@db.example:5432/x"),
        ("postgresql:///x?host=/run&password=secret&user=me", "postgresql:///x?host=/run&password=…&user=me"),
    ],
)
def test_a_password_is_not_shown(url: str, expected: str | None) -> None:
    """Not in the file that says where to, nor in any line (P16)."""
    assert expected is None or expected == shown(url)
    assert "secret" not in shown(url)
