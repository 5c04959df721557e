"""Speech jobs with voices: what an id fixes, the shared voice's defaults and its pauses."""

import hashlib
import io
import wave
from typing import Any

import pytest

from servers.callers import Caller, Operator, error_code, job
from servers.voices import listed, own_voice, recording, upload, voice_of_kind

pytestmark = pytest.mark.variant("database", only="postgresql")

SHARED_DEFAULTS = {
    "duration_factor": 1.1,
    "interval_silence": 350,
    "max_text_tokens_per_segment": 80,
    "use_random": False,
    "use_emo_text": False,
}
PAUSE = "a" + " " * 8 + "b"
"""With the fake engine 60 ms a character: 480 ms of silence between two tones."""
MISSING = "voice_01jd4k0a3v6c8e9g2h5m7n0p1q"
MS = 2 * 24
"""Bytes of a millisecond."""


def id_of(caller: Caller, kind: str) -> str:
    voice_id: str = voice_of_kind(caller, kind)["voice_id"]
    return voice_id


def spoken(caller: Caller, text: str = PAUSE, **parameters: Any) -> tuple[bytes, Any]:
    """The samples of a finished job, and the operation."""
    operation = caller.wait(caller.submit(text, **parameters))
    assert operation["state"] == "succeeded", operation
    answer = caller.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content")
    with wave.open(io.BytesIO(answer.content)) as wav:
        return wav.readframes(wav.getnframes()), operation


def test_every_voice_can_be_spoken_with(caller: Caller) -> None:
    """Shared, official and own ids are taken as voice_id (R73, R177, R178)."""
    own_voice(caller)
    speakers = [voice for voice in listed(caller) if voice["kind"] != "emotion"]
    jobs = [caller.submit("x", voice_id=voice["voice_id"]) for voice in speakers]

    assert 13 == len(jobs)
    assert {"succeeded"} == {caller.wait(job_id)["state"] for job_id in jobs}


def test_a_foreign_voice_is_an_unknown_one(caller: Caller, operator: Operator) -> None:
    """An own voice of another account, and one that was deleted, are not there (R73, R173)."""
    foreign, deleted = own_voice(operator.caller()), own_voice(caller)
    caller.request("DELETE", f"/v1/voices/{deleted}")

    for voice_id in (foreign, deleted, MISSING, "artifact_01jd4k0a3v6c8e9g2h5m7n0p1q"):
        assert [("parameters.voice_id", "unknown_voice")] == caller.refused(job(voice_id=voice_id))
    assert [("parameters.emotion_voice_id", "unknown_voice")] == caller.refused(job(emotion_voice_id=foreign))


def test_an_emotion_reference_is_no_speaker(caller: Caller) -> None:
    """It is refused as voice_id; as emotion_voice_id any voice will do (R73)."""
    emotion = id_of(caller, "emotion")

    assert [("parameters.voice_id", "not_allowed")] == caller.refused(job(voice_id=emotion))
    for voice_id in (emotion, own_voice(caller), id_of(caller, "official")):
        assert "succeeded" == caller.wait(caller.submit("x", emotion_voice_id=voice_id))["state"]


def test_voices_are_bound_by_their_ids(caller: Caller, operator: Operator) -> None:
    """The engine gets the very recordings of both ids, and of a text alone none (R72, R100)."""
    content = recording(3, seconds=2)
    own = upload(caller, content).json()["voice_id"]
    emotion = voice_of_kind(caller, "emotion")
    _, operation = spoken(caller, voice_id=own, emotion_voice_id=emotion["voice_id"])
    bound = operator.parameters(operation["id"])

    assert {
        "voice": hashlib.sha256(content).hexdigest(),
        "emotion_voice": emotion["audio"]["sha256"],
    } == operation["result"]["inputs"]
    assert (own, "own", {}, None) == tuple(
        bound["voice"][name] for name in ("voice_id", "kind", "profile", "profile_version")
    )
    assert {"style", "emotion"} == set(bound["emotion_voice"]["profile"])
    assert "inputs" not in spoken(caller)[1]["result"]


def test_the_shared_voice_has_defaults(caller: Caller, operator: Operator) -> None:
    """They hold with its id alone, where the caller gives nothing else, be that the contract's
    own default (R94–R96, R177)."""
    shared = voice_of_kind(caller, "shared")
    with_shared = operator.parameters(caller.submit("x", voice_id=shared["voice_id"]))
    without = {
        kind: operator.parameters(caller.submit("x", voice_id=voice_id))
        for kind, voice_id in {"official": id_of(caller, "official"), "own": own_voice(caller)}.items()
    }
    plain = operator.parameters(caller.submit("x", emotion_voice_id=shared["voice_id"]))
    sent: dict[str, Any] = {"duration_factor": 1, "interval_silence": 200, "use_random": True}
    explicit = operator.parameters(caller.submit("x", voice_id=shared["voice_id"], **sent))

    assert SHARED_DEFAULTS == shared["default_parameters"]
    assert SHARED_DEFAULTS == {name: with_shared[name] for name in SHARED_DEFAULTS}
    assert SHARED_DEFAULTS | sent == {name: explicit[name] for name in SHARED_DEFAULTS}
    for parameters in (*without.values(), plain):
        assert [1, 200, 120] == [
            parameters[name]
            for name in ("duration_factor", "interval_silence", "max_text_tokens_per_segment")
        ]


def test_pauses_of_the_shared_voice_are_shortened(caller: Caller) -> None:
    """480 ms of silence become 350, the rest stays bit for bit, the result tells; it names the version of the
    voice's record, with nothing to shorten too (R102, R104, R108, R109, R219)."""
    plain, _ = spoken(caller, voice_id=id_of(caller, "official"))
    samples, operation = spoken(caller, voice_id=id_of(caller, "shared"), duration_factor=1)

    assert plain[: 60 * MS] + bytes(350 * MS) + plain[-60 * MS :] == samples
    for told in (operation["result"], operation["artifacts"][0]["metadata"]):
        assert ("tenuto-shared-1", 130, 470) == tuple(
            told[name] for name in ("voice_profile_version", "pause_removed_ms", "duration_ms")
        )
    shared = voice_of_kind(caller, "shared")
    result = spoken(caller, "x", voice_id=shared["voice_id"])[1]["result"]
    assert (shared["profile_version"], 0) == (result["voice_profile_version"], result["pause_removed_ms"])


def test_silence_at_the_ends_is_kept(caller: Caller) -> None:
    """However long it is; in between only what is long enough is shortened (R103, R104)."""
    text = "[fake:edges=1]a" + " " * 7 + "b" + " " * 10 + "c"
    plain, _ = spoken(caller, text)
    samples, operation = spoken(caller, text, voice_id=id_of(caller, "shared"), duration_factor=1)

    assert bytes(1000 * MS) == samples[: 1000 * MS] == samples[-1000 * MS :]
    assert plain[: (1000 + 9 * 60) * MS] + bytes(350 * MS) + plain[-1060 * MS :] == samples
    assert 600 - 350 == operation["result"]["pause_removed_ms"]


def test_other_voices_keep_their_pauses(caller: Caller) -> None:
    """No pause is changed or reported (R105)."""
    for named in ({"voice_id": own_voice(caller)}, {}):
        samples, operation = spoken(caller, **named)

        assert 10 * 60 * MS == len(samples)
        assert bytes(480 * MS) == samples[60 * MS : -60 * MS]
        assert not {"voice_profile_version", "pause_removed_ms"} & set(operation["result"])


def test_a_job_keeps_its_voice_when_that_is_deleted(caller: Caller) -> None:
    """What was bound when the job was accepted is spoken with (R100)."""
    content = recording(4)
    voice_id = upload(caller, content).json()["voice_id"]
    blocking = caller.block_lane()
    job_id = caller.submit("x", voice_id=voice_id)
    caller.request("DELETE", f"/v1/voices/{voice_id}")
    caller.cancel(blocking)
    operation = caller.wait(job_id)

    assert ("succeeded", hashlib.sha256(content).hexdigest()) == (
        operation["state"],
        operation["result"]["inputs"]["voice"],
    )
    assert (404, "not_found") == error_code(caller.get(f"/v1/voices/{voice_id}"))


def test_a_damaged_recording_ends_the_job(caller: Caller, operator: Operator) -> None:
    """It is never spoken with: the job fails and says why, a download is refused (R100)."""
    voice_id = own_voice(caller)
    row = operator.row("select blob_id from voice where id = :id", id=voice_id)
    blob_id = str(row["blob_id"])
    file = operator.service.folder / "blobs" / blob_id[-2:] / blob_id
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    operation = caller.wait(caller.submit("x", voice_id=voice_id))

    assert ("failed", "input_unreadable") == (operation["state"], operation["error"]["code"])
    assert (503, "artifact_unavailable") == error_code(caller.get(f"/v1/voices/{voice_id}/content"))
