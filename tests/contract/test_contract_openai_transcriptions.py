"""POST /v1/audio/transcriptions by OpenAI's own package and as others send it; translations are refused.

The fake engines stand in where the words do not matter; the real one listens in Whisper's own tests.
"""

import io
import json
import uuid
from typing import Any

import httpx2
import numpy as np
import pytest
import soundfile

from servers import recordings
from servers.callers import Caller, Operator, error_code, faults
from servers.openai_calls import FORMATS, form, package, request_of, send_form, sound, transcribe

pytestmark = pytest.mark.variant("database", only="postgresql")


@pytest.fixture
def caller(operator: Operator) -> Caller:
    """A new account that can pay for recordings."""
    return operator.caller(credit="100")


def input_of(caller: Caller, answer: httpx2.Response) -> tuple[Any, bytes]:
    """The body of the job behind an answer, and its stored input."""
    body = request_of(caller, answer)
    [artifact_id] = body["input_artifact_ids"]
    return body, caller.get(f"/v1/artifacts/{artifact_id}/content").content


def test_openais_own_package_transcribes(caller: Caller) -> None:
    """Each form of the answer as the package's types read it, with its job and charge."""
    content, client = sound(), package(caller)
    raw = client.audio.transcriptions.with_raw_response
    plain = raw.create(model="whisper-1", file=("a.wav", content))
    text = client.audio.transcriptions.create(
        model="whisper-1", file=("a.wav", content), response_format="text"
    )
    verbose = client.audio.transcriptions.create(
        model="whisper-1",
        file=("a.wav", content),
        response_format="verbose_json",
        timestamp_granularities=["segment"],
    )
    diarized = client.audio.transcriptions.create(
        model="gpt-4o-transcribe-diarize", file=("a.wav", content), response_format="diarized_json"
    )
    job = caller.read(plain.headers["x-service-job"])
    words = recordings.texts(recordings.result(caller, job))
    spoken = plain.parse()

    assert " ".join(words) == spoken.text
    assert {"type": "duration", "seconds": 2} == json.loads(plain.content)["usage"]
    assert job["artifacts"][0]["sha256"] == plain.headers["x-service-sha256"]
    assert f"{job['billing']['charged']} CNY" == plain.headers["x-service-charged"]
    assert f"{spoken.text}\n" == text
    assert words == [segment.text for segment in verbose.segments or []]
    assert spoken.text == verbose.text
    assert 1.7 == pytest.approx(verbose.duration, abs=0.001)
    assert [0, 1, 2] == [segment.id for segment in verbose.segments or []]
    assert words == [segment.text for segment in diarized.segments]
    assert {"A", "B"} >= {segment.speaker for segment in diarized.segments}


@pytest.mark.parametrize("name", FORMATS)
def test_every_usual_format_is_stored_as_a_flac_of_the_same_length(caller: Caller, name: str) -> None:
    """What it is says its content: each is sent as if it were a WAV, with empty fields as programs do."""
    answer = transcribe(caller, sound(name), language="", prompt="")
    body, stored = input_of(caller, answer)
    about = soundfile.info(io.BytesIO(stored))

    assert 200 == answer.status_code, answer.text
    assert ("FLAC", 16_000, 1) == (about.format, about.samplerate, about.channels)
    assert 1.7 == pytest.approx(about.duration, abs=0.1)
    assert {"model": "fake/segment-text", "parameters": {"language": "auto"}} == {
        name: body[name] for name in ("model", "parameters")
    }


def test_samples_of_the_right_rate_stay_as_they_are(caller: Caller) -> None:
    """16 kHz mono of 16 bits reaches the engine bit by bit; stereo of another rate is mixed and resampled."""
    content = sound()
    _, stored = input_of(caller, transcribe(caller, content))
    file = io.BytesIO()
    tone = (np.sin(np.arange(44_100) / 50) * 9_000).astype(np.int16)
    soundfile.write(file, np.stack([tone, 0 * tone], axis=1), 44_100, format="WAV")
    _, mixed = input_of(caller, transcribe(caller, file.getvalue()))

    assert np.array_equal(*(soundfile.read(io.BytesIO(each), dtype="int16")[0] for each in (content, stored)))
    half, rate = soundfile.read(io.BytesIO(mixed), dtype="int16")
    assert (16_000, 16_000) == (rate, len(half))
    assert 4_500 == pytest.approx(abs(half).max(), rel=0.02)


def test_fields_become_parameters(caller: Caller) -> None:
    """Language, prompt and keywords as the contract names them; what has no meaning here is named."""
    answer = transcribe(
        caller,
        sound(),
        ("include[]", "logprobs"),
        ("keywords[]", "fermata"),
        ("keywords[]", "tenuto"),
        language="en-US",
        prompt="Music.",
        temperature="0",
        response_format="",
    )
    body, _ = input_of(caller, answer)

    assert "temperature, include[]" == answer.headers["x-service-ignored"]
    assert {"language": "en", "context": "Music.", "hotwords": ["fermata", "tenuto"]} == body["parameters"]
    assert "Wörter.wav" == caller.read(answer.headers["x-service-job"])["title"]


def test_a_language_that_is_not_used_is_named(caller: Caller) -> None:
    """By a model that detects it, and by one that does not know it; one that is used stands in the answer."""
    for fields in ({"model": recordings.FIRST, "language": "es", "stream": "true"}, {"language": "sw"}):
        answer = transcribe(caller, sound(), **fields)

        assert (200, "language") == (answer.status_code, answer.headers.get("x-service-ignored")), fields
    used = transcribe(caller, sound(), language="ja", response_format="verbose_json")
    assert ("ja", None) == (used.json()["language"], used.headers.get("x-service-ignored"))


def test_a_file_name_in_another_encoding_costs_the_name_alone(caller: Caller) -> None:
    """As curl sends it on Windows: the recording is transcribed, and its job has no name."""
    body = form([("model", None, b"whisper-1"), ("file", "NAME", sound())])
    answer = send_form(caller, body.replace(b"NAME", "录音.wav".encode("gb18030")))

    assert 200 == answer.status_code, answer.text
    assert "录音.wav" != caller.read(answer.headers["x-service-job"])["title"]


def test_the_transcript_comes_in_events(caller: Caller) -> None:
    """Deltas and the whole at the end, with speakers if they are asked for; a failed job is an event of its
    own without an end. How many deltas there are depends on how often the running job was looked at."""
    content = sound()
    with package(caller).audio.transcriptions.create(
        model="whisper-1", file=("a.wav", content), stream=True
    ) as events:
        plain = [event.model_dump() for event in events]
    answer = transcribe(caller, content, stream="true", response_format="diarized_json")
    diarized = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    failed = transcribe(caller, recordings.recording(2, directive=1001), stream="true")

    types = [event["type"].removeprefix("transcript.text.") for event in diarized]
    for found in (plain, diarized):
        assert "transcript.text.done" == found[-1]["type"]
        assert found[-1]["text"] == "".join(event.get("delta", "") for event in found)
    assert {"transcript.text.delta"} == {event["type"] for event in plain[:-1]}
    assert 3 == types.count("segment") and {"segment", "delta"} == set(types[:-1])
    assert "text/event-stream; charset=utf-8" == answer.headers["content-type"]
    assert "event: error\ndata: " in failed.text
    assert "done" not in failed.text


WAV = sound()
CASES: dict[str, tuple[bytes, str | None, tuple[str, str]]] = {
    "no file": (form([("model", None, b"whisper-1")]), None, ("file", "required")),
    "two files": (form([("file", "a", WAV), ("file", "b", WAV)]), None, ("file", "wrong_length")),
    "an empty file": (
        form([("model", None, b"whisper-1"), ("file", "a", b"")]),
        None,
        ("file", "empty"),
    ),
    "no boundary": (form([("file", "a", WAV)]), "multipart/form-data", ("Content-Type", "required")),
    "another boundary": (form([("file", "a", WAV)], "x"), None, ("body", "invalid_form")),
    "cut off": (form([("file", "a", WAV)])[:-20], None, ("body", "invalid_form")),
    "many fields": (form([("x", None, b"")] * 300), None, ("body", "invalid_form")),
    "a long header": (form([("x" * 9_000, None, b"")]), None, ("body", "invalid_form")),
    "much text": (form([("prompt", None, b"x" * (200 << 10))]), None, ("prompt", "too_long")),
}


@pytest.mark.parametrize("case", CASES)
def test_broken_forms_are_refused_by_name(caller: Caller, case: str) -> None:
    """Nothing is stored of them."""
    body, content_type, fault = CASES[case]
    answer = send_form(caller, body, content_type)

    assert [fault] == faults(answer), answer.text
    assert [] == caller.newest()


def test_files_that_are_not_read_say_what_is(caller: Caller) -> None:
    """400 with what they are, if that can be told, and the formats that work."""
    contents = [
        (b"<html>not found</html>", "does not begin like a sound file; WAV, MP3, FLAC"),
        (
            b"\x1aE\xdf\xa3" + bytes(5_000),
            "it is WebM or Matroska, which is read only if the operator has set `ffmpeg`",
        ),
        (bytes(4) + b"ftypM4A " + bytes(5_000), "set `ffmpeg` in the settings; WAV, MP3, FLAC"),
        (b"RIFF" + bytes(5_000), "it is damaged"),
    ]

    for content, why in contents:
        answer = transcribe(caller, content)
        assert [("file", "invalid_recording")] == faults(answer)
        assert why in answer.json()["error"]["message"]
    assert [] == caller.newest()


def test_translations_are_refused_with_400(caller: Caller) -> None:
    """Nextcloud takes a 404 for a service without recognition; the answer says what there is."""
    body = form([("model", None, b"invalid-model"), ("file", "a.wav", WAV)])
    answer = send_form(caller, body, to="translations")

    assert (400, "invalid_request") == error_code(answer)
    assert "/v1/audio/transcriptions" in answer.json()["error"]["message"]


def test_a_recording_is_charged_once_for_its_minutes(paid: Operator) -> None:
    """The hold is that of the longest recording; what is not needed is given back. Without the balance
    for it nothing is stored."""
    caller, poor = paid.caller(credit="10"), paid.caller(credit="1")
    key = str(uuid.uuid4())
    content = sound()
    refused = transcribe(poor, content, Idempotency_Key="one")
    answers = [transcribe(caller, content, Idempotency_Key=key) for _ in range(2)]
    operation = caller.read(answers[0].headers["x-service-job"])

    assert {f"{operation['billing']['charged']} CNY"} == {
        answer.headers["x-service-charged"] for answer in answers
    }
    assert (1, 0) == (stored(paid, caller), stored(paid, poor))
    assert (403, "insufficient_balance") == error_code(refused)


def test_an_mp3_is_charged_by_all_that_it_holds_and_a_cut_one_not_at_all(paid: Operator) -> None:
    """Three in one file; one that is cut off is refused, and it is told what can be read of it."""
    caller = paid.caller(credit="100")
    samples = np.random.default_rng(1).standard_normal(30 * 16_000) * 0.1
    file = io.BytesIO()
    soundfile.write(file, samples, 16_000, format="MP3")
    once, thrice = (transcribe(caller, file.getvalue() * count) for count in (1, 3))
    costs = [float(answer.headers["x-service-charged"].split()[0]) for answer in (once, thrice)]
    before = paid.money(caller)
    cut = transcribe(caller, file.getvalue()[:-100])

    assert 90 == pytest.approx(thrice.json()["usage"]["seconds"], abs=1)
    assert 3 * costs[0] == pytest.approx(costs[1], rel=0.02)
    assert [("file", "invalid_recording")] == faults(cut)
    assert "s of it can be read" in cut.text
    assert before == paid.money(caller)


def stored(operator: Operator, caller: Caller) -> int:
    """How many inputs this account has."""
    row = operator.row(
        "select count(*) as count from artifact where account_id = :account and job_id is null",
        account=caller.account_id,
    )
    return int(row["count"])
