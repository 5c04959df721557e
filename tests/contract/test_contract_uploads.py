"""POST /v1/input-artifacts: what is accepted, what is refused in which order, and that nothing else is
stored."""

import hashlib
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from servers.callers import Caller, Operator, error_code, faults
from servers.flacs import ADMITTED, REFUSED
from servers.processes import until
from servers.recordings import RATE, post, recording
from servers.speed import HANG_S

pytestmark = pytest.mark.variant("database", only="postgresql")


LIMIT_BYTES = 268_435_456
WRONG = "0" * 64


def stored(operator: Operator, caller: Caller) -> tuple[int, int]:
    """How many artifacts the account has, and how many blobs without a row lie in the folder."""
    count = operator.row(
        "select count(*) as rows from artifact where account_id = :id", id=caller.account_id
    )["rows"]
    blobs = {path.name for path in (operator.service.folder / "blobs").rglob("blob_*")}
    known = operator.database.read(lambda tx: {row["id"] for row in tx.all("select id from blob")})
    return count, len(blobs - known)


def test_an_upload_gives_its_record(operator: Operator, caller: Caller) -> None:
    """201 with id, size and checksum of what was sent, at any rate and length up to two hours; free of charge
    (R43, R149, R151, R152, R155–R157, R216)."""
    content = recording(seconds=2.5)
    sha256 = hashlib.sha256(content).hexdigest()
    answer = post(
        caller, content, X_Service_Content_SHA256=sha256.upper(), Content_Type="AUDIO/FLAC; rate=16000"
    )
    artifact = answer.json()["artifact"]

    assert 201 == answer.status_code
    assert (len(content), sha256) == (artifact["size_bytes"], artifact["sha256"])
    assert content == caller.get(f"/v1/artifacts/{artifact['id']}/content").content
    assert ("audio/flac", "artifact") == (artifact["media_type"], artifact["object"])
    assert {"duration_ms": 2500, "sample_rate": RATE, "channels": 1} == artifact["metadata"]
    assert artifact["id"].startswith("artifact_")
    assert (0, 0) == operator.money(caller)
    make, (frames, rate, channels) = ADMITTED["120 minutes to the sample"]
    longest = post(caller, make()).json()["artifact"]["metadata"]
    assert {"duration_ms": -(-frames * 1000 // rate), "sample_rate": rate, "channels": channels} == longest


def test_wrong_headers_are_refused(operator: Operator, caller: Caller) -> None:
    """415 with just these words; the checksum is required, as 64 hex digits; nothing is stored (R119, R150,
    R153)."""
    for media_type in ("audio/wav", "audio/flac2", ""):
        answer = post(caller, recording(), Content_Type=media_type)
        assert (415, "unsupported_media_type") == error_code(answer)
        assert "input must be audio/flac" == answer.json()["error"]["message"]
    for checksum in ("", WRONG + "0", f"{WRONG[2:]}0x", f"{WRONG},{WRONG}"):
        answer = post(caller, recording(), X_Service_Content_SHA256=checksum, Idempotency_Key="x" * 256)
        assert ["Idempotency-Key", "X-Service-Content-SHA256"] == [param for param, _ in faults(answer)]
    assert 0 == stored(operator, caller)[0]


def test_a_checksum_of_other_bytes_is_refused(operator: Operator, caller: Caller) -> None:
    """400 checksum_mismatch, and neither a row nor bytes stay (R150)."""
    before = stored(operator, caller)
    answer = post(caller, recording(), X_Service_Content_SHA256=WRONG)

    assert (400, "checksum_mismatch") == error_code(answer)
    assert before == stored(operator, caller)


def test_what_is_no_sound_flac_is_refused(operator: Operator, caller: Caller) -> None:
    """400 with the reason; neither a row nor bytes stay; features/recognition has the whole corpus (R155)."""
    before = stored(operator, caller)
    for what in ("an empty file", "cut off by one byte", "120 minutes and one sample, one minute promised"):
        make, reason = REFUSED[what]
        answer = post(caller, make())
        assert [("body", "invalid_recording")] == faults(answer)
        assert reason in answer.json()["error"]["message"]
    assert before == stored(operator, caller)


def test_an_upload_that_breaks_off_leaves_nothing(operator: Operator, caller: Caller) -> None:
    """A client that goes away before the last byte has uploaded nothing."""
    before = stored(operator, caller)
    with _raw(caller, "Content-Length: 1000000") as line:
        line.sendall(recording())
    again = post(caller, recording())

    assert 201 == again.status_code
    until(lambda: (before[0] + 1, before[1]) == stored(operator, caller), HANG_S, "the rest has gone")


def test_the_checks_come_in_their_order(operator: Operator, caller: Caller) -> None:
    """401 → 415 → headers 400 → declared length 413 → checksum 400 → admission 400, each before the next, and
    the first four before anything of the body (R154, R211)."""
    too_long = f"Content-Length: {LIMIT_BYTES + 1}"
    cases = [
        (("Bearer x", "audio/wav", "", too_long), 401),
        ((f"Bearer {caller.key}", "audio/wav", "", too_long), 415),
        ((f"Bearer {caller.key}", "audio/flac", "", too_long), 400),
        ((f"Bearer {caller.key}", "audio/flac", WRONG, too_long), 413),
    ]
    for (authorization, media_type, checksum, length), status in cases:
        with _raw(caller, length, authorization, media_type, checksum) as line:
            assert f"HTTP/1.1 {status}".encode() in line.recv(4096)
    no_flac = post(caller, b"no FLAC", X_Service_Content_SHA256=WRONG)

    assert (400, "checksum_mismatch") == error_code(no_flac)


def test_a_key_gives_the_same_record_again(operator: Operator, caller: Caller) -> None:
    """The same bytes under the same key are one input; other bytes are a conflict; no key, no replay."""
    content = recording()
    answers = [post(caller, content, Idempotency_Key="upload-1") for _ in range(2)]
    other = post(caller, recording(), Idempotency_Key="upload-1")
    without = post(caller, content)

    assert [201, 201] == [answer.status_code for answer in answers]
    assert [None, "true"] == [answer.headers.get("idempotent-replayed") for answer in answers]
    assert answers[0].json() == answers[1].json()
    assert (409, "idempotency_conflict") == error_code(other)
    assert answers[0].json()["artifact"]["id"] != without.json()["artifact"]["id"]
    assert 2 == stored(operator, caller)[0]


def test_uploads_with_one_key_at_once_are_one(operator: Operator, caller: Caller) -> None:
    """Whoever commits first has made the record; of the others no bytes stay."""
    content = recording()
    before = stored(operator, caller)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: post(caller, content, Idempotency_Key="upload-2"), range(4)))

    assert [201] * 4 == [answer.status_code for answer in answers]
    assert 1 == len({answer.json()["artifact"]["id"] for answer in answers})
    assert (before[0] + 1, before[1]) == stored(operator, caller)


def test_an_account_has_eight_uploads_under_way(operator: Operator, caller: Caller) -> None:
    """The ninth gets 429, another account's upload works; once one finishes there is capacity again
    (R212)."""
    with ExitStack() as stack:
        for _ in range(8):
            expecting = "Content-Length: 1000000\r\nExpect: 100-continue"
            line = stack.enter_context(_raw(caller, expecting))
            # It is told to go on when its body is wanted: then it has its place.
            assert b"HTTP/1.1 100" in line.recv(4096)
        waiting = post(caller, recording())
        other = post(operator.caller(), recording())

    assert (429, "rate_limited") == error_code(waiting)
    assert 1 <= int(waiting.headers["retry-after"]) <= 120
    assert 201 == other.status_code
    until(lambda: post(caller, recording()).status_code == 201, HANG_S, "there is a place again")


@contextmanager
def _raw(
    caller: Caller,
    length: str,
    authorization: str | None = None,
    media_type: str = "audio/flac",
    checksum: str = WRONG,
) -> Iterator[socket.socket]:
    """A connection on which the head of an upload was sent, and nothing of its body."""
    url = caller.http.base_url
    lines = [
        "POST /v1/input-artifacts HTTP/1.1",
        f"Host: {url.host}",
        f"Authorization: {authorization or f'Bearer {caller.key}'}",
        f"Content-Type: {media_type}",
        *([f"X-Service-Content-SHA256: {checksum}"] if checksum else []),
        length,
    ]
    with socket.create_connection((url.host, url.port), timeout=120) as line:
        line.sendall("\r\n".join([*lines, "", ""]).encode())
        yield line
