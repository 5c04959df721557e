"""POST /v1/audio/speech, and what programs look up beside it, by OpenAI's own package and as others send it.

The fake engine stands in where the sound does not matter; the real one speaks in Kokoro's own tests.
"""

import base64
import io
import json

import pytest
import soundfile

from servers.callers import METERED, Caller, Operator, error_code, faults
from servers.openai_calls import HELLO, jobs_of, package, request_of, speak
from tenuto_client.languages import spoken

pytestmark = pytest.mark.variant("database", only="postgresql")


LONG = "Every note is held. " * 411
"""A little more than a job may have."""


def test_openais_own_package_speaks(caller: Caller) -> None:
    """Every format has its media type, its whole sound, its job, its charge; MP3 is the default."""
    client = package(caller)
    kinds = {
        "mp3": "audio/mpeg",
        "wav": "audio/wav",
        "flac": "audio/flac",
        "opus": "audio/ogg",
        "pcm": "audio/pcm",
    }
    answers = {
        name: client.audio.speech.with_raw_response.create(
            model="tts-1",
            voice="alloy",
            input="Hold the note.\n",
            response_format=name,  # type: ignore[arg-type]
        )
        for name in kinds
    }
    default = client.audio.speech.create(model="fake/speech", voice="alloy", input="Hold the note.")
    job = caller.read(answers["wav"].headers["x-service-job"])
    stored = caller.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/content").content
    seconds = (len(stored) - 44) / 48_000

    assert kinds == {name: answer.headers["content-type"] for name, answer in answers.items()}
    assert stored == answers["wav"].content
    assert job["artifacts"][0]["sha256"] == answers["wav"].headers["x-service-sha256"]
    assert f"{job['billing']['charged']} CNY" == answers["wav"].headers["x-service-charged"]
    assert seconds == pytest.approx(len(answers["pcm"].content) / 48_000, abs=0.001)
    for name in ("mp3", "flac", "opus"):
        assert seconds == pytest.approx(soundfile.info(io.BytesIO(answers[name].content)).duration, abs=0.1)
    assert default.content[:2] == b"\xff\xf3"


def test_fields_become_parameters(caller: Caller) -> None:
    """Speed, instructions, voice and language as the contract names them; extensions as they are."""
    voices = {voice["name"]: voice["id"] for voice in caller.get("/v1/audio/voices").json()["voices"]}
    sent = {
        "speed": 1.25,
        "instructions": "Cheerful!",
        "voice": {"id": voices["Linda"]},
        "backend": "openai",
        "stream_format": None,
        "top_k": 7,
    }
    spoken = speak(caller, HELLO | sent)
    chinese = speak(caller, HELLO | {"input": " 你好。\n", "voice": "SONGTAO", "instructions": "None"})
    kokoro = speak(
        caller, HELLO | {"model": "gpt-4o-mini-tts", "lang_code": "e", "voice": "default", "extra": {}}
    )

    assert "backend" == spoken.headers["x-service-ignored"]
    assert {
        "model": "fake/speech",
        "parameters": {
            "text": "Hold the note.",
            "lang": "en",
            "voice_id": voices["Linda"],
            "duration_factor": 0.8,
            "use_emo_text": True,
            "emo_text": "Cheerful!",
            "top_k": 7,
        },
    } == request_of(caller, spoken)
    assert {"text": "你好。", "lang": "zh", "voice_id": voices["松涛 Songtao"]} == request_of(
        caller, chinese
    )["parameters"]
    assert {"text": "Hold the note.", "lang": "es"} == request_of(caller, kokoro)["parameters"]


def test_openais_voices_are_official_ones_of_the_language(caller: Caller) -> None:
    """Each name of OpenAI's is a voice that was made for the text's language, the same every time."""
    listed = {voice["id"]: voice for voice in caller.get("/v1/audio/voices").json()["voices"]}
    bound = {
        text: [
            request_of(caller, speak(caller, HELLO | {"input": text, "voice": name}))["parameters"][
                "voice_id"
            ]
            for name in ("alloy", "nova", "alloy")
        ]
        for text in ("One.", "一。", "いち。")
    }

    for text, ids in bound.items():
        assert ids[0] == ids[2]
        assert all([spoken(text)] == listed[each]["languages"] for each in ids)
        assert all("official" == listed[each]["kind"] for each in ids)


def test_a_text_without_speech_is_the_callers_fault(caller: Caller) -> None:
    """The job's own code, the job's id, and no retry; an engine that fails is a 500, and no retry either."""
    answer = speak(caller, HELLO | {"input": "…"})
    failed = speak(caller, HELLO | {"input": "[fake:raise] Nonsense."})

    assert [(400, "nothing_to_speak"), (500, "engine_failed")] == [
        error_code(each) for each in (answer, failed)
    ]
    assert ["false"] * 2 == [each.headers["x-should-retry"] for each in (answer, failed)]
    assert "failed" == caller.read(answer.headers["x-service-job"])["state"]


def test_the_sound_comes_in_events(caller: Caller) -> None:
    """The same bytes as at once, in base64, and an end; a failed job is an event of its own without one."""
    with package(caller).audio.speech.with_streaming_response.create(**HELLO, stream_format="sse") as answer:  # type: ignore[arg-type]
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    failed = speak(caller, HELLO | {"stream_format": "sse", "input": "…"}).text

    sound = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert {"speech.audio.delta"} == {event["type"] for event in events[:-1]}
    assert "speech.audio.done" == events[-1]["type"]
    assert speak(caller, HELLO).content == sound
    assert failed.startswith("event: error\ndata: ")
    assert '"code":"nothing_to_speak"' in failed
    assert "done" not in failed


def test_a_result_is_downloaded_in_another_form(caller: Caller) -> None:
    """What OpenAI's route makes of a job, any job's artifact gives; a form that there is not is refused."""
    answer = speak(caller, HELLO)
    artifact = caller.read(answer.headers["x-service-job"])["artifacts"][0]
    path = f"/v1/artifacts/{artifact['id']}"

    assert answer.content == caller.get(f"{path}/rendition?form=mp3").content
    assert caller.get(f"{path}/content").content == caller.get(f"{path}/rendition?form=wav").content
    assert [("form", "not_allowed")] == faults(caller.get(f"{path}/rendition?form=aac"))
    assert [("form", "not_allowed")] == faults(caller.get(f"{path}/rendition?form=webp"))


def test_a_long_text_becomes_jobs_of_one_sound(caller: Caller) -> None:
    """Over 8,192 bytes: several jobs, cut at sentences, whose sound is joined sample to sample."""
    answer = speak(caller, HELLO | {"input": LONG, "response_format": "wav", "speed": 2})
    jobs = [caller.read(job_id) for job_id in jobs_of(answer)]
    frames = [caller.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/content").content[44:] for job in jobs]
    texts = [caller.get(f"/v1/jobs/{job['id']}/request").json()["parameters"]["text"] for job in jobs]

    assert len(jobs) == 2
    assert b"".join(frames) == answer.content[44:]
    assert len(answer.content) - 8 == int.from_bytes(answer.content[4:8], "little")
    assert LONG.strip() == " ".join(texts)
    assert all(piece.endswith(".") for piece in texts)


def test_a_text_is_as_long_as_the_documents_say_however_it_is_written(caller: Caller) -> None:
    """256 KiB of Arabic with each letter escaped, as Python's `json.dumps` writes it; no byte more."""
    text = "سلام. " * 26_214 + "سل"
    body = {"model": "tts-1", "voice": "nobody", "input": text}

    assert 256 << 10 == len(text.encode())
    assert [("voice", "unknown_voice")] == faults(speak(caller, body))
    assert [("input", "too_long")] == faults(speak(caller, body | {"input": text + "."}))


def test_no_key_is_that_of_another_requests_second_job(caller: Caller) -> None:
    """However it is spelt: a long text's further jobs have keys that no caller can choose (P2)."""
    body = HELLO | {"input": LONG, "response_format": "wav", "speed": 2}
    long = speak(caller, body, Idempotency_Key="book")
    others = [speak(caller, HELLO, Idempotency_Key=key) for key in ("book/1", "/1:book", "1:book")]
    again = speak(caller, body, Idempotency_Key="book")

    assert long.headers["x-service-job"] == again.headers["x-service-job"]
    assert 5 == len({job for each in (long, *others) for job in jobs_of(each)})


def test_a_long_text_is_accepted_whole_or_not_at_all(paid: Operator) -> None:
    """The hold of the second job is refused: there is no first one either, and the key stays free."""
    caller = paid.caller(credit="0.12")

    refused = speak(caller, HELLO | {"input": LONG, "model": METERED}, Idempotency_Key="one")
    short = speak(caller, HELLO | {"model": METERED}, Idempotency_Key="one")

    assert (403, "insufficient_balance") == error_code(refused)
    assert "insufficient_quota" == refused.json()["error"]["type"]
    assert "0.080000 CNY" == short.headers["x-service-charged"]
    assert [short.headers["x-service-job"]] == caller.newest()


def test_what_programs_look_up(caller: Caller) -> None:
    """Voices in both shapes, speech models, and one model by its name in either spelling."""
    voices = caller.get("/v1/audio/voices").json()
    models = {model["id"] for model in caller.get("/v1/audio/models").json()["models"]}
    shown = package(caller).models.retrieve("fake/speech")
    spelt = [caller.get(f"/v1/models/{name}").json() for name in ("fake/speech", "fake%2Fspeech")]

    assert [voice["id"] for voice in voices["voices"]] == voices["data"]
    assert not any("emotion" == voice["kind"] for voice in voices["voices"])
    assert {"fake/speech", "fake/metered-speech"} == models
    assert "fake/speech" == shown.id
    assert spelt[0] == spelt[1]
    assert (404, "not_found") == error_code(caller.get("/v1/models/nobody/has-this"))
