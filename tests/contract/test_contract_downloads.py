"""GET /v1/artifacts/{id}/content: the bytes, parts of them, and what happens when they are damaged."""

import hashlib
import io
import socket
import time
import wave
from pathlib import Path
from typing import Any

import httpx2
import pytest

from servers.callers import Caller, Operator, error_code
from tenuto.api.artifacts import STALL_S

pytestmark = pytest.mark.variant("database", only="postgresql")

BLOCK = 1 << 20
LONG = " ".join(["A long text that fills more than one block."] * 20)
"""879 characters of 60 ms, 24,000 samples of two bytes a second, and silences: 2.9 MB."""


@pytest.fixture
def artifact(caller: Caller) -> Any:
    """The file of a job that has succeeded: about 100 kB."""
    return caller.wait(caller.submit("Hold the note for its full value."))["artifacts"][0]


@pytest.fixture
def long_artifact(caller: Caller) -> Any:
    """A file of three blocks."""
    found = caller.wait(caller.submit(LONG))["artifacts"][0]
    assert 2 * BLOCK < found["size_bytes"] < 3 * BLOCK
    return found


def path(artifact: Any) -> str:
    return f"/v1/artifacts/{artifact['id']}/content"


@pytest.mark.parametrize("stream", [False, True])
def test_the_result_is_the_file_that_the_record_describes(caller: Caller, stream: bool) -> None:
    """Size, hash and type are the record's, the whole WAV with stream too; it is sent alike each time, and no
    job is made by it (R42–R48, R65, R107, R216)."""
    artifact = caller.wait(caller.submit("x" * 50, stream=stream, interval_silence=100))["artifacts"][0]
    answer = caller.get(path(artifact))

    assert (200, artifact["media_type"]) == (answer.status_code, answer.headers["content-type"])
    assert artifact["size_bytes"] == len(answer.content) == int(answer.headers["content-length"])
    assert artifact["sha256"] == hashlib.sha256(answer.content).hexdigest()
    assert f'"{artifact["sha256"]}"' == answer.headers["etag"]
    assert ("bytes", "nosniff") == (answer.headers["accept-ranges"], answer.headers["x-content-type-options"])
    assert answer.content == caller.get(path(artifact)).content
    assert 1 == len(caller.newest())
    with wave.open(io.BytesIO(answer.content)) as wav:
        assert (1, 2, 24_000) == (wav.getnchannels(), wav.getsampwidth(), wav.getframerate())
        assert 24 * (50 * 60 + 2 * 100) == wav.getnframes()


def test_a_range_is_that_part_of_the_file(caller: Caller, long_artifact: Any) -> None:
    """One range is answered 206 with its place, also across blocks (R46)."""
    whole = caller.get(path(long_artifact)).content
    for text in (
        *("0-0", "100-", "-100", "0-99999999999", f"{BLOCK - 10}-{2 * BLOCK + 10}"),
        *(f"{BLOCK - 1}-{BLOCK}", f"{BLOCK}-{2 * BLOCK - 1}", "-" + "9" * 40, "0" * 30 + "5-9"),
    ):
        first, _, last = text.partition("-")
        start = max(0, len(whole) - int(last)) if first == "" else int(first)
        end = len(whole) if first == "" or last == "" else min(len(whole), int(last) + 1)
        answer = caller.get(path(long_artifact), {"Range": f"bytes={text}"})

        assert 206 == answer.status_code
        assert f"bytes {start}-{end - 1}/{len(whole)}" == answer.headers["content-range"]
        assert whole[start:end] == answer.content
        assert str(end - start) == answer.headers["content-length"]


def test_a_range_that_can_not_be_sent(caller: Caller, artifact: Any) -> None:
    """What starts behind the end is 416 with the file's length; what HTTP can't read is ignored."""
    for text in ("bytes=999999999-", "bytes=-0", "bytes=" + "9" * 5000 + "-"):
        answer = caller.get(path(artifact), {"Range": text})
        assert (416, "range_not_satisfiable") == error_code(answer)
        assert f"bytes */{artifact['size_bytes']}" == answer.headers["content-range"]
    for text in ("lines=1-2", "bytes=", "bytes=-", "bytes=9-1", "bytes=a-b", "bytes=0-1,3-4", "0-1"):
        answer = caller.get(path(artifact), {"Range": text})
        assert (200, artifact["size_bytes"]) == (answer.status_code, len(answer.content))


def test_conditions_and_ranges_go_together(caller: Caller, artifact: Any) -> None:
    """If-Match names the content that is wanted, compared strongly; If-None-Match the one that is there
    already, also weakly; If-Range with the ETag alone resumes, else the whole file is sent."""
    etag = f'"{artifact["sha256"]}"'
    part = {"Range": "bytes=10-19"}
    cases: list[tuple[dict[str, str], int]] = [
        *(({"If-Match": tags}, 200) for tags in ("*", etag, f'"other", {etag}')),
        ({"If-Match": etag} | part, 206),
        *(({"If-Match": tags} | more, 412) for tags in ('"other"', f"W/{etag}", "") for more in ({}, part)),
        *(({"If-None-Match": tags}, 304) for tags in (etag, f'"a", W/{etag}, "b"', "*")),
        ({"If-None-Match": '"other"'}, 200),
        ({"If-Range": etag} | part, 206),
        *(
            ({"If-Range": value} | part, 200)
            for value in ('"other"', f"W/{etag}", "Sat, 01 Jan 2028 00:00:00 GMT")
        ),
    ]
    answers = [caller.get(path(artifact), headers) for headers, _ in cases]

    assert [status for _, status in cases] == [answer.status_code for answer in answers]
    for answer in answers:
        if answer.status_code == 412:
            assert (412, "precondition_failed") == error_code(answer)
        if answer.status_code == 304:
            assert (b"", etag) == (answer.content, answer.headers["etag"])


@pytest.mark.parametrize(
    ("damage", "headers"),
    [("flipped", {}), ("cut", {"Range": "bytes=5-9"}), ("longer", {}), ("missing", {"Range": "bytes=5-9"})],
)
def test_damage_in_the_first_block_is_503(
    operator: Operator, caller: Caller, artifact: Any, damage: str, headers: dict[str, str]
) -> None:
    """Missing, cut or changed bytes are never sent: 503 with Retry-After; the job stays (R32, R46, R213)."""
    operation = caller.get("/v1/jobs").json()["data"][0]
    hurt(operator.blob_file(artifact["id"]), damage, at=44)
    answer = caller.get(path(artifact), headers)

    assert (503, "artifact_unavailable") == error_code(answer)
    assert 1 <= int(answer.headers["retry-after"]) <= 120
    assert operation == caller.read(operation["id"])
    assert "succeeded" == operation["state"]
    assert f'"artifact_id": "{artifact["id"]}"' in operator.service.log_path.read_text()


def test_damage_in_a_later_block_cuts_the_connection_before_it(
    operator: Operator, caller: Caller, long_artifact: Any
) -> None:
    """The good blocks come, the bad one never does: the client sees a broken download (R46)."""
    whole = caller.get(path(long_artifact)).content
    hurt(operator.blob_file(long_artifact["id"]), "flipped", at=2 * BLOCK + 7)
    received = bytearray()

    with (
        pytest.raises(httpx2.RemoteProtocolError),
        caller.http.stream(
            "GET", path(long_artifact), headers={"Authorization": f"Bearer {caller.key}"}
        ) as answer,
    ):
        assert 200 == answer.status_code
        for piece in answer.iter_raw():
            received += piece

    assert whole[: len(received)] == received
    assert len(received) <= 2 * BLOCK


def test_damage_is_counted(paid: Operator) -> None:
    """A metric tells how often bytes were found missing or damaged, at the start of a file or later."""
    caller = paid.caller(credit="1")
    metrics = f"http://127.0.0.1:{paid.service.variables['TENUTO_METRICS_PORT']}/metrics"
    artifact = caller.wait(caller.submit(LONG))["artifacts"][0]
    before = _counted(metrics)
    hurt(paid.blob_file(artifact["id"]), "flipped", at=BLOCK + 7)
    with pytest.raises(httpx2.RemoteProtocolError):
        caller.get(path(artifact))
    hurt(paid.blob_file(artifact["id"]), "missing", at=0)
    caller.get(path(artifact))

    assert before + 2 == _counted(metrics)


def test_erasing_what_is_being_read_raises_no_alarm(paid: Operator) -> None:
    """The connection is cut, for the bytes are gone; nothing is counted or logged as damaged: a caller could
    otherwise wake the operator at will.
    """
    caller = paid.caller(credit="1")
    metrics = f"http://127.0.0.1:{paid.service.variables['TENUTO_METRICS_PORT']}/metrics"
    artifact = caller.wait(caller.submit(LONG))["artifacts"][0]
    before = _counted(metrics)
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(30)
        slow.connect(("127.0.0.1", paid.service.port))
        head = f"GET {path(artifact)} HTTP/1.1\r\nHost: tenuto\r\nAuthorization: Bearer {caller.key}\r\n\r\n"
        slow.sendall(head.encode())
        received = len(slow.recv(1024))
        assert 200 == caller.request("DELETE", f"/v1/artifacts/{artifact['id']}").status_code
        # What a client that does not read had in store is forgotten by then, and read again from the disk.
        time.sleep(2 * STALL_S)
        while piece := slow.recv(65536):
            received += len(piece)

    assert received < artifact["size_bytes"]
    assert before == _counted(metrics)
    assert f'"artifact_id": "{artifact["id"]}"' not in paid.service.log_path.read_text()
    assert (410, "erased") == error_code(caller.get(path(artifact)))


def _counted(metrics: str) -> int:
    lines = httpx2.get(metrics).text.splitlines()
    return int(
        float(next(line.split()[1] for line in lines if line.startswith("tenuto_artifacts_damaged_total")))
    )


def test_a_range_beside_the_damage_is_sent(operator: Operator, caller: Caller, long_artifact: Any) -> None:
    """Only the blocks that are asked for are checked: what is whole can still be had, the rest can't."""
    whole = caller.get(path(long_artifact)).content
    hurt(operator.blob_file(long_artifact["id"]), "flipped", at=BLOCK + 7)
    beside = caller.get(path(long_artifact), {"Range": f"bytes=0-{BLOCK - 1}"})
    behind = caller.get(path(long_artifact), {"Range": f"bytes={2 * BLOCK}-"})
    inside = caller.get(path(long_artifact), {"Range": f"bytes={2 * BLOCK - 5}-{2 * BLOCK - 1}"})

    assert (206, whole[:BLOCK]) == (beside.status_code, beside.content)
    assert (206, whole[2 * BLOCK :]) == (behind.status_code, behind.content)
    assert (503, "artifact_unavailable") == error_code(inside)


def hurt(file: Path, damage: str, *, at: int) -> None:
    """Damage a stored file as a disk or a person would."""
    if damage == "missing":
        file.unlink()
        return
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[at] ^= 1
    elif damage == "cut":
        del content[-1]
    else:
        content += b"\0"
    file.write_bytes(content)
