"""POST /v1/audio/transcriptions by OpenAI's own package and as others send it; translations are refused.

The fake engines stand in where the words do not matter; the real one listens in Whisper's own tests.
"""

import io
import json
import socket
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import numpy as np
import pytest
import soundfile

from servers import recordings
from servers.callers import Caller, Operator, error_code, faults
from servers.processes import until
from tenuto.features.openai.transcriptions import read_transcript

pytestmark = pytest.mark.variant("database", only="postgresql")

if TYPE_CHECKING:
    import openai

PATH = "/v1/audio/transcriptions"
FIELDS = {"model": "whisper-1"}
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "float.wav": ("WAV", "FLOAT"),
    "mp3": ("MP3", None),
    "flac": ("FLAC", "PCM_16"),
    "opus": ("OGG", "OPUS"),
    "caf": ("CAF", "PCM_16"),
}


@pytest.fixture
def caller(operator: Operator) -> Caller:
    """A new account that can pay for recordings."""
    return operator.caller(credit="100")


@pytest.fixture
def client(caller: Caller) -> Iterator["openai.OpenAI"]:
    """OpenAI's own package on our base address."""
    import openai  # Not above: it takes a second, which every process that collects this file would spend.

    url = str(caller.http.base_url).rstrip("/") + "/v1"
    with openai.OpenAI(base_url=url, api_key=caller.key, max_retries=0) as client:
        yield client


def sound(name: str = "wav", words: int = 3) -> bytes:
    """A recording that no other call gives, of so many words for the fake engine, in one of `FORMATS`."""
    samples, rate = soundfile.read(io.BytesIO(recordings.recording(words)), dtype="int16")
    container, encoding = FORMATS[name]
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=container, subtype=encoding)
    return file.getvalue()


def form(parts: list[tuple[str, str | None, bytes]], boundary: str = "b0undary") -> bytes:
    """A form of fields: name, file name if it is a file, content."""
    pieces = []
    for name, file_name, content in parts:
        file = "" if file_name is None else f'; filename="{file_name}"'
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
        pieces.append(head.encode() + content + b"\r\n")
    return b"".join(pieces) + f"--{boundary}--\r\n".encode()


def send(caller: Caller, body: bytes, content_type: str | None = None, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named["Content-Type"] = content_type or "multipart/form-data; boundary=b0undary"
    return caller.request("POST", PATH, headers=named, content=body)


def transcribe(caller: Caller, content: bytes, *more: tuple[str, str], **fields: str) -> httpx2.Response:
    """The answer to a form with this file; `more` are fields that come twice."""
    headers = {name: fields.pop(name) for name in list(fields) if name[0].isupper()}
    texts = [*(FIELDS | fields).items(), *more]
    parts = [(name, None, value.encode()) for name, value in texts]
    return send(caller, form([*parts, ("file", "Wörter.wav", content)]), **headers)


def input_of(caller: Caller, answer: httpx2.Response) -> tuple[Any, bytes]:
    """The body of the job behind an answer, and its stored input."""
    body = caller.get(f"/v1/jobs/{answer.headers['x-service-job']}/request").json()
    [artifact_id] = body["input_artifact_ids"]
    return body, caller.get(f"/v1/artifacts/{artifact_id}/content").content


def test_openais_own_package_transcribes(client: "openai.OpenAI", caller: Caller) -> None:
    """Each form of the answer as the package's types read it, with its job and charge."""
    content = sound()
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
    """What it is says its content: each is sent as if it were a WAV."""
    answer = transcribe(caller, sound(name))
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
    answer = send(caller, body.replace(b"NAME", "录音.wav".encode("gb18030")))

    assert 200 == answer.status_code, answer.text
    assert "录音.wav" != caller.read(answer.headers["x-service-job"])["title"]


def test_the_transcript_comes_in_events(client: "openai.OpenAI", caller: Caller) -> None:
    """Deltas and the whole at the end, with speakers if they are asked for; a failed job is an event of its
    own without an end. How many deltas there are depends on how often the running job was looked at."""
    content = sound()
    with client.audio.transcriptions.create(
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


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"model": "fake/speech"}, ("model", "unknown_model")),
        ({"model": ""}, ("model", "required")),
        ({"response_format": "srt"}, ("response_format", "unsupported_format")),
        ({"response_format": "smoke"}, ("response_format", "not_allowed")),
        ({"stream": "perhaps"}, ("stream", "wrong_type")),
        ({"timestamp_granularities[]": "word"}, ("timestamp_granularities", "not_allowed")),
        ({"language": "a language with a long name"}, ("language", "too_long")),
        ({"language": "xx"}, ("language", "not_allowed")),
        ({"prompt": "x" * (130 << 10)}, ("prompt", "too_long")),
        ({"prompt": "a\0b"}, ("prompt", "invalid_utf8")),
    ],
)
def test_what_is_wrong_is_said_in_the_clients_words(
    caller: Caller, change: dict[str, str], fault: tuple[str, str]
) -> None:
    """Always 400 with what would be right, and never 404: programs read that as a missing path."""
    answer = transcribe(caller, sound(), **change)

    assert [fault] == faults(answer)
    assert [] == caller.newest()


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
    answer = send(caller, body, content_type)

    assert [fault] == faults(answer), answer.text
    assert [] == caller.newest()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<html>not found</html>", "does not begin like a sound file; WAV, MP3, FLAC"),
        (
            b"\x1aE\xdf\xa3" + bytes(5_000),
            "it is WebM or Matroska, which is read only if the operator has set `ffmpeg`",
        ),
        (bytes(4) + b"ftypM4A " + bytes(5_000), "set `ffmpeg` in the settings; WAV, MP3, FLAC"),
        (b"RIFF" + bytes(5_000), "it is damaged"),
    ],
)
def test_files_that_are_not_read_say_what_is(caller: Caller, content: bytes, why: str) -> None:
    """400 with what they are, if that can be told, and the formats that work."""
    answer = transcribe(caller, content)

    assert [("file", "invalid_recording")] == faults(answer)
    assert why in answer.json()["error"]["message"]
    assert [] == caller.newest()


def test_translations_are_refused_with_400(caller: Caller) -> None:
    """Nextcloud takes a 404 for a service without recognition; the answer says what there is."""
    body = form([("model", None, b"invalid-model"), ("file", "a.wav", WAV)])
    answer = caller.request(
        "POST",
        "/v1/audio/translations",
        headers={"Content-Type": "multipart/form-data; boundary=b0undary"},
        content=body,
    )

    assert (400, "invalid_request") == error_code(answer)
    assert "/v1/audio/transcriptions" in answer.json()["error"]["message"]


def test_a_key_is_bound_to_the_recording_and_not_to_the_form(caller: Caller) -> None:
    """One job and one stored input for two forms of answer; another recording under the key is a conflict."""
    key, content = str(uuid.uuid4()), sound()
    first = transcribe(caller, content, Idempotency_Key=key)
    again = transcribe(caller, content, response_format="text", Idempotency_Key=key)
    other = transcribe(caller, sound(), Idempotency_Key=key)
    changed = transcribe(caller, content, language="ja", Idempotency_Key=key)

    assert first.headers["x-service-job"] == again.headers["x-service-job"]
    assert (None, "true") == tuple(each.headers.get("idempotent-replayed") for each in (first, again))
    assert {(409, "idempotency_conflict")} == {error_code(each) for each in (other, changed)}
    assert "false" == other.headers["x-should-retry"]
    assert [first.headers["x-service-job"]] == caller.newest()


@pytest.mark.parametrize("name", ["Idempotency_Key", "X_Stainless_Retry_Count"])
def test_a_retry_is_its_request_whatever_the_models_name_means_by_then(operator: Operator, name: str) -> None:
    """`whisper-1` stands for nothing any more: the same job of the same recording (P2)."""
    caller, content, headers = operator.caller(credit="100"), sound(), {name: "1"}
    first = transcribe(caller, content, **headers)
    operator.restrict(caller, ["fake/speech"])
    again = transcribe(caller, content, response_format="text", **headers)

    assert 200 == again.status_code, again.text
    assert first.headers["x-service-job"] == again.headers["x-service-job"]


def test_the_same_recording_twice_is_two_jobs_unless_it_is_declared_a_retry(caller: Caller) -> None:
    """A retry that the SDK declares joins the job whose client has left; without that nothing is guessed."""
    content = recordings.recording(2)
    body = form([("model", None, b"whisper-1"), ("file", "a.flac", content)])
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: tenuto\r\nAuthorization: Bearer {caller.key}\r\n"
        f"Content-Type: multipart/form-data; boundary=b0undary\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    url = caller.http.base_url
    with socket.create_connection((url.host, url.port or 80)) as line:
        line.sendall(head.encode() + body)
        until(lambda: bool(caller.newest()), 120, "the job is accepted")
        [left] = caller.newest()
    joined = transcribe(caller, content, X_Stainless_Retry_Count="1")
    separate = transcribe(caller, content)

    assert left == joined.headers["x-service-job"]
    assert "true" == joined.headers["idempotent-replayed"]
    assert left != separate.headers["x-service-job"]


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


def test_a_restricted_key_transcribes_with_its_own_model(operator: Operator) -> None:
    """OpenAI's names stand for a model that the key may use; another's name is refused with 403."""
    caller = operator.caller(credit="100", models=["fake/word-timestamps"])
    own = transcribe(caller, sound())

    assert "fake/word-timestamps" == input_of(caller, own)[0]["model"]
    assert (403, "model_not_allowed") == error_code(
        transcribe(caller, sound(), model="fake/dual-recognition")
    )


def test_texts_are_joined_as_they_are_written() -> None:
    """Spaces between words that have them, none between Chinese or Japanese sentences; empty pieces are left
    out, speakers are letters in the order of their labels."""
    segments = [
        ("Hold it.", "S02"),
        (" ", None),
        ("好的。", "S01"),
        ("再见。", "S01"),
        ("안녕.", "S03"),
        ("Bye.", "S02"),
    ]
    engine = {
        "language": "zh",
        "segments": [
            {"start": at, "end": at + 1, "text": text, "speaker": speaker}
            for at, (text, speaker) in enumerate(segments)
        ],
    }
    result = {"audio": {"duration_seconds": 5.2}, "engines": {"segment_text": engine}}
    transcript = read_transcript(json.dumps(result).encode())
    diarized = transcript.as_json("diarized_json")

    assert "Hold it.好的。再见。안녕. Bye." == transcript.text()
    assert ["B", "A", "A", "C", "B"] == [segment["speaker"] for segment in diarized["segments"]]
    assert {"type": "duration", "seconds": 6} == diarized["usage"]


def stored(operator: Operator, caller: Caller) -> int:
    """How many inputs this account has."""
    row = operator.row(
        "select count(*) as count from artifact where account_id = :account and job_id is null",
        account=caller.account_id,
    )
    return int(row["count"])
