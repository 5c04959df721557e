"""Renditions and streams whose clients read slowly: what they take of disk and memory."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from limits.conftest import Refusals, running
from servers.callers import Caller, Operator, error_code
from servers.speed import HANG_S

TEXT = "Hold the note, and let it ring for a while. " * 180
SPEECH = "/v1/audio/speech"


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Operator, Refusals]]:
    """One large rendition for an account."""
    yield from running(tmp_path_factory.mktemp("tight") / "data", {"TENUTO_SCRATCH_MIB": "16"})


@pytest.fixture(scope="module")
def slow(tight: tuple[Operator, Refusals]) -> Caller:
    """Whoever reads slowly."""
    return tight[0].caller()


@pytest.fixture(scope="module")
def sound(slow: Caller) -> str:
    """The path of 47 MiB of sound."""
    job_id = slow.submit(TEXT.strip(), duration_factor=2)
    [artifact] = slow.wait(job_id, timeout_s=300)["artifacts"]
    assert artifact["size_bytes"] > 40 << 20
    return f"/v1/artifacts/{artifact['id']}"


def scratch_bytes(operator: Operator) -> dict[str, int]:
    """The sizes of the files without a name that the process has open, by their folder."""
    assert operator.service.process is not None
    folder = Path(f"/proc/{operator.service.process.pid}/fd")
    sizes: dict[str, int] = {}
    for each in folder.iterdir():
        with suppress(OSError):
            target, size_bytes = str(each.readlink()), each.stat().st_size
            if target.endswith(" (deleted)"):
                parent = target.rpartition("/")[0]
                sizes[parent] = sizes.get(parent, 0) + size_bytes
    return sizes


def opened(caller: Caller, stack: ExitStack, method: str, path: str, body: bytes = b"") -> socket.socket:
    """A request whose answer is not read."""
    line = stack.enter_context(socket.socket())
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.connect(("127.0.0.1", caller.http.base_url.port or 0))
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.key}\r\n"
    head += "Content-Type: application/json\r\nIdempotency-Key: one\r\n" if body else ""
    line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return line


def test_an_account_has_so_much_of_renditions_on_the_disk(
    tight: tuple[Operator, Refusals], slow: Caller, sound: str
) -> None:
    """In the data folder; a second one is refused while the first is not read, others' are not (P14)."""
    operator, refusals = tight
    path = f"{sound}/rendition?form=mp3"
    before = refusals.all()["scratch"]
    with ExitStack() as stack:
        line = opened(slow, stack, "GET", path)
        assert line.recv(12) == b"HTTP/1.1 200"
        taken = scratch_bytes(operator)
        refused = slow.get(path)
        counted = refusals.all()["scratch"] - before
        small = operator.caller()
        spoken = small.request(
            "POST",
            SPEECH,
            headers={"Content-Type": "application/json"},
            content=json.dumps({"model": "tts-1", "voice": "alloy", "input": "Hold."}).encode(),
        )
    until = time.monotonic() + HANG_S
    while (again := slow.get(path)).status_code == 429:
        assert time.monotonic() < until
        time.sleep(0.1)

    assert [str(operator.service.folder)] == list(taken) and taken.popitem()[1] > 1 << 20
    assert (429, "rate_limited") == error_code(refused) and "1" == refused.headers["retry-after"]
    assert (1, 200, 200) == (counted, spoken.status_code, again.status_code)
    assert not any(scratch_bytes(operator).values())


def test_damaged_sound_is_refused_or_cut(tight: tuple[Operator, Refusals], sound: str, slow: Caller) -> None:
    """Whoever reads never takes a half for the whole."""
    operator, _ = tight
    artifact_id = sound.rpartition("/")[2]
    row = operator.row("select blob_id from artifact where id = :id", id=artifact_id)
    [file] = operator.service.folder.rglob(f"{row['blob_id']}*")
    for at, form in ((20 << 20, "pcm"), (100, "pcm")):
        with file.open("r+b") as damaged:
            damaged.seek(at)
            damaged.write(b"\x55\xaa" * 8)
        if at > 1 << 20:
            with pytest.raises(httpx2.RemoteProtocolError):
                slow.get(f"{sound}/rendition?form={form}")
        else:
            assert (503, "artifact_unavailable") == error_code(slow.get(f"{sound}/rendition?form={form}"))
