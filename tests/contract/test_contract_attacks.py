"""The corpora of attacks against a running service: each is answered as its table says, and nothing stays.

Never a 5xx but 503, nothing stored, no id given, no second request that was hidden in the first; and the
next request is answered as if nothing had been (P14, P15).
"""

import re
import socket
import uuid

import pytest

from servers.callers import ON_ONE_DATABASE, Caller, Operator, job
from servers.corpora import FOLDER, Attack, attacks
from servers.recordings import post as post_recording
from servers.service import RunningService
from servers.voices import upload as upload_voice

HIDDEN = (
    "POST /v1/jobs HTTP/1.1\r\nHost: tenuto\r\nAuthorization: Bearer @KEY@\r\nIdempotency-Key: hidden\r\n"
    "Content-Type: application/json\r\nConnection: close\r\nContent-Length: 62\r\n\r\n"
    '{"model": "fake/speech", "parameters": {"text": "Hidden one"}}'
)
"""A second request after one that is refused and closed: a server that continued reading would run it."""
CLOSED_AFTER = {"400", "413", "414", "431", "closed"}
PATIENCE_S = 15.0
MAX_ANSWER_BYTES = 64 << 10
KINDS = ("http", "json", "wav", "flac")


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_stands_in_its_table(kind: str) -> None:
    """A file without a line says nothing, a line without a file proves nothing."""
    named = [attack.name for attack in attacks(kind)]

    assert sorted(path.name for path in (FOLDER / kind).iterdir()) == sorted(named)
    assert all(len(attack.what) > 2 and attack.answers for attack in attacks(kind))


@ON_ONE_DATABASE
@pytest.mark.parametrize("attack", attacks("http"), ids=lambda attack: attack.name)
def test_bytes_that_are_no_request(
    service: RunningService, operator: Operator, caller: Caller, attack: Attack
) -> None:
    """Smuggling, floods and nonsense have the one answer of their line, and nothing behind them is read."""
    raw = attack.content().replace(b"@KEY@", caller.key.encode()).replace(b"@NEW@", uuid.uuid4().hex.encode())
    if set(attack.answers) <= CLOSED_AFTER and b"Connection: close" not in raw:
        raw += HIDDEN.replace("@KEY@", caller.key).encode()
    # Whoever promises more than a service takes waits for its answer with the body in hand.
    said = _said(service, raw, is_all="413" not in attack.answers)
    answers = [status.decode() for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]

    assert len(answers) <= 1
    assert (answers or ["closed"])[0] in attack.answers
    assert (0, 0, 0) == _stored(operator, caller)
    assert 200 == caller.get("/v1/models").status_code


@ON_ONE_DATABASE
@pytest.mark.parametrize(
    "attack",
    [each for n, each in enumerate(attacks("json")) if n % 24 == 0 or each.name.startswith("meaning-")],
    ids=lambda attack: attack.name,
)
def test_json_that_is_none(operator: Operator, caller: Caller, attack: Attack) -> None:
    """Bombs and liars are refused by every route that takes JSON; tests/core/kind reads all of them (P14)."""
    content, headers = attack.content(), {"Content-Type": "application/json", "Idempotency-Key": "one"}
    answers = [
        caller.request(method, path, headers=headers, content=content)
        for method, path in (
            ("POST", "/v1/jobs"),
            ("POST", "/v1/chat/completions"),
            ("PUT", "/v1/voice-preference"),
        )
    ]

    assert [attack.answers[0]] * 3 == [str(answer.status_code) for answer in answers]
    assert all(answer.json()["error"]["message"].isprintable() for answer in answers)
    assert max(len(answer.content) for answer in answers) < MAX_ANSWER_BYTES
    assert (0, 0, 0) == _stored(operator, caller)
    # A key that was bound would answer another body with 409.
    assert 202 == caller.post_job(job(), key="one").status_code


@ON_ONE_DATABASE
@pytest.mark.parametrize("attack", attacks("flac")[::16], ids=lambda attack: attack.name)
def test_recordings_that_lie(operator: Operator, caller: Caller, attack: Attack) -> None:
    """Some of the corpus, as they come through the door; tests/features/recognition reads all of it (P14)."""
    answer = post_recording(caller, attack.content())
    answers = ("201",) if attack.answers == ("job",) else attack.answers

    assert str(answer.status_code) in answers
    assert (0, int(answer.status_code == 201), 0) == _stored(operator, caller)


@ON_ONE_DATABASE
@pytest.mark.parametrize("attack", attacks("wav")[::16], ids=lambda attack: attack.name)
def test_voices_that_lie(operator: Operator, caller: Caller, attack: Attack) -> None:
    """Some of the corpus, as they come through the door; tests/core/kind reads all of it (P14)."""
    answer = upload_voice(caller, attack.content())

    assert str(answer.status_code) in attack.answers
    assert (0, 0, int(answer.status_code == 201)) == _stored(operator, caller)


def _said(service: RunningService, raw: bytes, *, is_all: bool) -> bytes:
    """All that is answered, until the service closes or has nothing more to say."""
    answer = b""
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S) as line:
        try:
            line.sendall(raw)
            if is_all:
                line.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        try:
            while piece := line.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    return answer


def _stored(operator: Operator, caller: Caller) -> tuple[int, int, int]:
    """Jobs, artifacts and voices of the caller."""
    counts = [
        operator.row(f"select count(*) as n from {table} where account_id = :id", id=caller.account_id)["n"]
        for table in ("job", "artifact", "voice")
    ]
    return counts[0], counts[1], counts[2]
