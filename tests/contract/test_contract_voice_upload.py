"""POST /v1/voices: which recordings are accepted, what the record says, and that nothing of a refused one is
stored."""

import hashlib
import json
import uuid
from urllib.parse import quote

import httpx2
import pytest

from servers.callers import Caller, Faults, Operator, error_code, faults
from servers.voices import chunks, headers_of, listed, recording, upload
from servers.wavs import chunk, fmt, riff

pytestmark = pytest.mark.variant("database", only="postgresql")

SECOND = bytes(2 * 16_000)
DATA = chunk(b"data", SECOND)
LIMIT = 12 * 1024 * 1024
LONGEST = 15 * 192_000 * 2 * 2
"""The samples of the longest recording that a rule lets through: 11.5 MB."""


def stored(operator: Operator, caller: Caller) -> int:
    """How many voices the account has."""
    row = operator.row("select count(*) as n from voice where account_id = :id", id=caller.account_id)
    return int(row["n"])


def test_an_upload_makes_a_voice(caller: Caller) -> None:
    """201 with the record, its place, its id; the recording as it came (R163, R165, R172)."""
    content = recording(seconds=1.5)
    answer = upload(caller, content, "Clara")
    voice = answer.json()

    assert (201, f"/v1/voices/{voice['voice_id']}") == (answer.status_code, answer.headers["location"])
    assert ("voice", "own", "Clara", [], {}, None, None) == tuple(
        voice[name]
        for name in (
            *("object", "kind", "name", "languages", "default_parameters", "profile_version", "provenance"),
        )
    )
    assert {
        "media_type": "audio/wav",
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "duration_ms": 1500,
        "sample_rate": 8000,
        "channels": 1,
    } == voice["audio"]
    assert voice == caller.get(f"/v1/voices/{voice['voice_id']}").json()


def test_names_of_all_scripts_come_through(caller: Caller) -> None:
    """Percent-encoded, as RFC 8187 writes it, or as bytes of UTF-8 (R163)."""
    content = recording()
    sent = {key.encode(): value.encode() for key, value in headers_of(content, "声音").items()}
    sent[b"Authorization"] = f"Bearer {caller.key}".encode()
    raw = caller.http.post("/v1/voices", headers=list(sent.items()), content=content)

    assert "声" * 80 == upload(caller, recording(), quote("声" * 80)).json()["name"]
    assert "صوت" == upload(caller, recording(), "UTF-8''" + quote("صوت")).json()["name"]
    assert (201, "声音") == (raw.status_code, raw.json()["name"])


def test_wrong_headers_are_named_at_once(caller: Caller, operator: Operator) -> None:
    """A name of 1 to 80 characters and a checksum are required, an idempotency key is not (R163, R164)."""
    wrong: list[tuple[dict[str, str | None], Faults]] = [
        ({"X-Service-Voice-Name": "x" * 81}, [("X-Service-Voice-Name", "too_long")]),
        ({"X-Service-Content-SHA256": None}, [("X-Service-Content-SHA256", "required")]),
        (
            {"X-Service-Voice-Name": None, "X-Service-Content-SHA256": "", "Idempotency-Key": "x" * 256},
            [
                ("Idempotency-Key", "invalid_idempotency_key"),
                ("X-Service-Content-SHA256", "invalid_checksum"),
                ("X-Service-Voice-Name", "required"),
            ],
        ),
    ]
    content = recording()
    for changes, expected in wrong:
        sent = {name: value for name, value in (headers_of(content) | changes).items() if value is not None}
        assert expected == faults(caller.request("POST", "/v1/voices", headers=sent, content=content))
    assert 0 == stored(operator, caller)


def test_the_checksum_is_verified(caller: Caller, operator: Operator) -> None:
    """Other bytes are refused before they are looked at; hex of either case is right (R164)."""
    content = recording()
    wrong = hashlib.sha256(content + b"x").hexdigest()
    right = hashlib.sha256(content).hexdigest().upper()

    assert (400, "checksum_mismatch") == error_code(upload(caller, content, X_Service_Content_SHA256=wrong))
    assert (400, "checksum_mismatch") == error_code(upload(caller, b"", X_Service_Content_SHA256=wrong))
    assert 0 == stored(operator, caller)
    assert 201 == upload(caller, content, X_Service_Content_SHA256=right).status_code


def test_only_wav_is_taken(caller: Caller, operator: Operator) -> None:
    """Another media type is refused in these words (R163, R167)."""
    for media_type in ("audio/flac", "audio/x-wav", ""):
        answer = upload(caller, recording(), Content_Type=media_type)
        assert (415, "unsupported_media_type") == error_code(answer)
        assert "voice must be audio/wav" == answer.json()["error"]["message"]
    assert 0 == stored(operator, caller)


BAD = {
    "nothing at all": b"",
    "a FLAC": b"fLaC" + bytes(40_000),
    "24 bits": riff(fmt(bits=24, align=3, byte_rate=48_000), chunk(b"data", bytes(3 * 16_000))),
    "three channels": riff(fmt(channels=3), chunk(b"data", bytes(6 * 16_000))),
    "16 s": recording(seconds=16),
}


def test_bad_recordings(caller: Caller, operator: Operator) -> None:
    """Anything else is refused with a reason, and nothing of it is kept (R167–R170). test_wav.py has more."""
    for what, content in BAD.items():
        assert faults(upload(caller, content))[0] in (
            ("body", "invalid_recording"),
            ("body", "out_of_range"),
        ), what
    assert 0 == stored(operator, caller)


def test_a_recording_has_at_most_12_mib(caller: Caller, operator: Operator) -> None:
    """One byte more is too large, declared or not, before all else of the body (R171)."""
    padding = LIMIT - LONGEST - len(riff(fmt(), chunk(b"data", b""), chunk(b"junk", b"")))
    samples = chunk(b"data", bytes(LONGEST))
    whole = riff(fmt(rate=192_000, channels=2), samples, chunk(b"junk", bytes(padding)))
    larger = whole + b"\0"
    assert LIMIT == len(whole)
    sent = {**headers_of(larger), "Authorization": f"Bearer {caller.key}"}
    unknown_length = caller.http.post("/v1/voices", headers=sent, content=chunks(larger))

    assert (413, "payload_too_large") == error_code(upload(caller, larger)) == error_code(unknown_length)
    assert 0 == stored(operator, caller)
    assert 201 == upload(caller, whole).status_code
    assert (
        201
        == caller.http.post(
            "/v1/voices", headers={**sent, **headers_of(whole)}, content=chunks(whole)
        ).status_code
    )


def test_no_text_goes_with_a_recording(caller: Caller) -> None:
    """There is no field for its text, neither here nor in the record (R166)."""
    voice = upload(caller, recording(), X_Service_Voice_Text="what is said").json()

    assert not [name for name in voice if "text" in name]
    assert "what is said" not in json.dumps(voice)


def test_the_order_of_the_checks(caller: Caller, operator: Operator) -> None:
    """401, 403, 415, headers, declared length, checksum, recording (R163, R164, R171)."""
    blind = operator.key(caller.account_id, models=[])
    large = bytes(LIMIT + 1)
    steps: list[httpx2.Response] = [
        caller.http.post("/v1/voices", content=large),
        blind.request("POST", "/v1/voices", headers={"Content-Type": "text/plain"}, content=large),
        caller.request("POST", "/v1/voices", headers={"Content-Type": "text/plain"}, content=large),
        caller.request("POST", "/v1/voices", headers={"Content-Type": "audio/wav"}, content=large),
        upload(caller, large, X_Service_Content_SHA256="0" * 64),
        upload(caller, b"no WAV", X_Service_Content_SHA256="0" * 64),
        upload(caller, b"no WAV"),
    ]

    assert [401, 403, 415, 400, 413, 400, 400] == [answer.status_code for answer in steps]
    assert "checksum_mismatch" == steps[5].json()["error"]["code"]


def test_an_upload_may_be_sent_again(caller: Caller, operator: Operator) -> None:
    """The same key with the same recording and name gives the same voice, with another a conflict.

    Only a voice binds a key; one that was deleted is not made again under it (R175).
    """
    key, content = str(uuid.uuid4()), recording(1)
    first = upload(caller, content, Idempotency_Key=key)
    again = upload(caller, content, Idempotency_Key=key)

    assert (201, first.json()) == (again.status_code, again.json())
    assert (None, "true") == tuple(x.headers.get("idempotent-replayed") for x in (first, again))
    assert first.headers["location"] == again.headers["location"]
    assert 1 == stored(operator, caller)
    for other in (
        upload(caller, recording(2), Idempotency_Key=key),
        upload(caller, content, "another name", Idempotency_Key=key),
    ):
        assert (409, "idempotency_conflict") == error_code(other)
    assert 201 == upload(operator.key(caller.account_id), recording(2), Idempotency_Key=key).status_code
    assert 400 == upload(caller, b"no WAV", Idempotency_Key=key + "2").status_code
    voice_id = upload(caller, recording(), Idempotency_Key=key + "2").json()["voice_id"]
    caller.request("DELETE", f"/v1/voices/{voice_id}")
    assert (410, "erased") == error_code(upload(caller, recording(), Idempotency_Key=key + "2"))
    assert voice_id not in [voice["voice_id"] for voice in listed(caller)]
