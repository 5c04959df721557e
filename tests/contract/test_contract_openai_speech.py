"""POST /v1/audio/speech, and what programs look up beside it, by OpenAI's own package and as others send it.

The fake engine stands in where the sound does not matter; the real one speaks in Kokoro's own tests.
"""

import base64
import io
import json
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import soundfile

from servers import voices
from servers.callers import Caller, Operator, error_code, faults
from servers.speed import at_least, within
from tenuto.features.openai.speech import cut_at_sentences
from tenuto_client.languages import spoken

pytestmark = pytest.mark.variant("database", only="postgresql")

if TYPE_CHECKING:
    import openai

LONG = "Every note is held. " * 411
"""A little more than a job may have."""
HELLO = {"model": "tts-1", "voice": "alloy", "input": "Hold the note."}


@pytest.fixture
def client(caller: Caller) -> Iterator["openai.OpenAI"]:
    """OpenAI's own package on our base address."""
    import openai  # Not above: it takes a second, which every process that collects this file would spend.

    url = str(caller.http.base_url).rstrip("/") + "/v1"
    with openai.OpenAI(base_url=url, api_key=caller.key, max_retries=0) as client:
        yield client


def speak(caller: Caller, body: dict[str, Any], **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = json.dumps(body).encode()
    return caller.request(
        "POST", "/v1/audio/speech", headers={"Content-Type": "application/json"} | named, content=content
    )


def request_of(caller: Caller, answer: httpx2.Response) -> Any:
    """The body of the job behind an answer."""
    return caller.get(f"/v1/jobs/{answer.headers['x-service-job']}/request").json()


def test_openais_own_package_speaks(client: "openai.OpenAI", caller: Caller) -> None:
    """Every format has its media type, its whole sound, its job, its charge; MP3 is the default."""
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
    kokoro = speak(caller, HELLO | {"lang_code": "e", "voice": "default"})

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


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"model": "fake/image"}, ("model", "unknown_model")),
        ({"model": None}, ("model", "required")),
        ({"voice": "zorro"}, ("voice", "unknown_voice")),
        ({"voice": 3}, ("voice", "wrong_type")),
        ({"speed": 4}, ("speed", "out_of_range")),
        ({"speed": 0.25}, ("speed", "out_of_range")),
        ({"input": " \n\u3000"}, ("input", "empty")),
        ({"response_format": "aac"}, ("response_format", "not_allowed")),
        ({"stream_format": "smoke"}, ("stream_format", "not_allowed")),
        ({"top_k": 1000}, ("top_k", "out_of_range")),
        ({"voice_id": {"id": "x"}, "stream": True}, ("voice_id", "wrong_type")),
        ({"emo_text": "Cheerful"}, ("emo_text", "requires")),
        ({"lang_code": "fr"}, ("lang_code", "not_allowed")),
    ],
)
def test_what_is_wrong_is_said_in_the_clients_words(
    caller: Caller, change: dict[str, Any], fault: tuple[str, str]
) -> None:
    """Always 400 with what would be right, and never 404: programs read that as a missing path."""
    before = caller.newest()

    assert [fault] == faults(speak(caller, HELLO | change))
    assert before == caller.newest()


def test_a_text_without_speech_is_the_callers_fault(caller: Caller) -> None:
    """The job's own code, the job's id, and no retry; an engine that fails is a 500, and no retry either."""
    answer = speak(caller, HELLO | {"input": "…"})
    failed = speak(caller, HELLO | {"input": "[fake:raise] Nonsense."})

    assert [(400, "nothing_to_speak"), (500, "engine_failed")] == [
        error_code(each) for each in (answer, failed)
    ]
    assert ["false"] * 2 == [each.headers["x-should-retry"] for each in (answer, failed)]
    assert "failed" == caller.read(answer.headers["x-service-job"])["state"]


def test_the_sound_comes_in_events(client: "openai.OpenAI", caller: Caller) -> None:
    """The same bytes as at once, in base64, and an end; a failed job is an event of its own without one."""
    with client.audio.speech.with_streaming_response.create(**HELLO, stream_format="sse") as answer:  # type: ignore[arg-type]
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    failed = speak(caller, HELLO | {"stream_format": "sse", "input": "…"}).text

    sound = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert {"speech.audio.delta"} == {event["type"] for event in events[:-1]}
    assert "speech.audio.done" == events[-1]["type"]
    assert speak(caller, HELLO).content == sound
    assert failed.startswith("event: error\ndata: ")
    assert '"code":"nothing_to_speak"' in failed
    assert "done" not in failed


@pytest.mark.measured
@pytest.mark.parametrize("form", [{}, {"response_format": "pcm"}, {"stream": True}, {"stream_format": "sse"}])
def test_a_request_waits_once_in_every_form(impatient: Operator, form: dict[str, Any]) -> None:
    """As long as the settings say, also where sound could come before the job ends."""
    caller = impatient.caller(credit="1")
    lane = caller.block_lane()
    try:
        with at_least(2), within(4):
            answer = speak(caller, HELLO | form)
    finally:
        caller.cancel(lane)

    assert "still_running" in answer.text


def test_a_result_is_downloaded_in_another_form(caller: Caller) -> None:
    """What OpenAI's route makes of a job, any job's artifact gives; a form that there is not is refused."""
    answer = speak(caller, HELLO)
    artifact = caller.read(answer.headers["x-service-job"])["artifacts"][0]
    path = f"/v1/artifacts/{artifact['id']}"

    assert answer.content == caller.get(f"{path}/rendition?form=mp3").content
    assert caller.get(f"{path}/content").content == caller.get(f"{path}/rendition?form=wav").content
    assert [("form", "not_allowed")] == faults(caller.get(f"{path}/rendition?form=aac"))
    assert [("form", "not_allowed")] == faults(caller.get(f"{path}/rendition?form=webp"))


def test_an_image_is_downloaded_in_another_form(operator: Operator) -> None:
    """JPEG and WebP of the verified PNG, for whoever may read it; no form of sound."""
    caller = operator.caller(credit="1")
    body = {"model": "fake/image", "parameters": {"prompt": "A lake.", "width": 256, "height": 256}}
    drawn = caller.wait(caller.post_job(body).json()["id"])
    path = f"/v1/artifacts/{drawn['artifacts'][0]['id']}"
    answers = {form: caller.get(f"{path}/rendition?form={form}") for form in ("jpeg", "webp", "png")}

    assert {
        "jpeg": ("image/jpeg", b"\xff\xd8\xff"),
        "webp": ("image/webp", b"RIF"),
        "png": ("image/png", b"\x89PN"),
    } == {form: (each.headers["content-type"], each.content[:3]) for form, each in answers.items()}
    assert [("form", "not_allowed")] == faults(caller.get(f"{path}/rendition?form=mp3"))
    assert [("form", "not_allowed")] == faults(caller.get(f"{path}/rendition"))
    assert 404 == operator.caller().get(f"{path}/rendition?form=webp").status_code


def test_a_key_is_bound_to_the_work_and_not_to_the_form(caller: Caller) -> None:
    """One job for two formats; another text under the same key is a conflict that no SDK retries."""
    key = str(uuid.uuid4())
    first = speak(caller, HELLO, Idempotency_Key=key)
    again = speak(caller, HELLO | {"response_format": "wav"}, Idempotency_Key=key)
    other = speak(caller, HELLO | {"input": "Another."}, Idempotency_Key=key)

    assert first.headers["x-service-job"] == again.headers["x-service-job"]
    assert (None, "true") == tuple(each.headers.get("idempotent-replayed") for each in (first, again))
    assert (409, "idempotency_conflict") == error_code(other)
    assert "false" == other.headers["x-should-retry"]


def test_the_same_request_twice_is_two_jobs_unless_it_is_declared_a_retry(operator: Operator) -> None:
    """A retry that OpenAI's SDK declares joins the job of its request, also one that was answered just now:
    the answer may not have arrived. Without a declaration nothing is guessed."""
    caller = operator.caller()
    lane = caller.block_lane()
    try:
        left = caller.http.build_request(
            "POST",
            "/v1/audio/speech",
            headers={"Authorization": f"Bearer {caller.key}"},
            json=HELLO,
            extensions={"timeout": {"read": 0.5}},
        )
        with pytest.raises(httpx2.ReadTimeout):
            caller.http.send(left)
        waiting = caller.newest()[0]
    finally:
        caller.cancel(lane)
    joined = speak(caller, HELLO, X_Stainless_Retry_Count="1")
    missed = speak(caller, HELLO, X_Stainless_Retry_Count="2")
    separate = speak(caller, HELLO)

    assert [waiting] * 2 == [each.headers["x-service-job"] for each in (joined, missed)]
    assert ["true"] * 2 == [each.headers["idempotent-replayed"] for each in (joined, missed)]
    assert waiting != separate.headers["x-service-job"]


RETRIES = [
    ({"Idempotency_Key": "one"}, {"Idempotency_Key": "one"}),
    ({}, {"X_Stainless_Retry_Count": "1"}),
]
"""The headers of a request, and those of its retry."""


@pytest.mark.parametrize(("first", "then"), RETRIES)
def test_a_retry_is_its_request_whatever_the_names_in_it_mean_by_then(
    paid: Operator, first: dict[str, str], then: dict[str, str]
) -> None:
    """`tts-1` stands for another model and the voice is deleted: the same job, paid once (P2)."""
    caller = paid.caller(credit="1")
    body = HELLO | {"voice": voices.own_voice(caller)}
    accepted = speak(caller, body, **first)
    caller.request("DELETE", f"/v1/voices/{body['voice']}")
    paid.restrict(caller, ["fake/metered-speech"])
    again = speak(caller, body, **then)

    assert "fake/speech" == request_of(caller, accepted)["model"]
    assert (200, "true") == (again.status_code, again.headers.get("idempotent-replayed")), again.text
    assert accepted.headers["x-service-job"] == again.headers["x-service-job"]


def test_a_long_text_becomes_jobs_of_one_sound(caller: Caller) -> None:
    """Over 8,192 bytes: several jobs, cut at sentences, whose sound is joined sample to sample."""
    text = LONG
    answer = speak(caller, HELLO | {"input": text, "response_format": "wav", "speed": 2})
    jobs = [caller.read(job_id) for job_id in answer.headers["x-service-job"].split(", ")]
    frames = [caller.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/content").content[44:] for job in jobs]
    texts = [caller.get(f"/v1/jobs/{job['id']}/request").json()["parameters"]["text"] for job in jobs]

    assert len(jobs) == 2
    assert b"".join(frames) == answer.content[44:]
    assert len(answer.content) - 8 == int.from_bytes(answer.content[4:8], "little")
    assert text.strip() == " ".join(texts)
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
    text = LONG
    body = HELLO | {"input": text, "response_format": "wav", "speed": 2}
    long = speak(caller, body, Idempotency_Key="book")
    others = [speak(caller, HELLO, Idempotency_Key=key) for key in ("book/1", "/1:book", "1:book")]
    again = speak(caller, body, Idempotency_Key="book")

    assert long.headers["x-service-job"] == again.headers["x-service-job"]
    assert 5 == len({job for each in (long, *others) for job in each.headers["x-service-job"].split(", ")})


def test_a_long_text_is_accepted_whole_or_not_at_all(paid: Operator) -> None:
    """The hold of the second job is refused: there is no first one either, and the key stays free."""
    caller = paid.caller(credit="0.12")
    text = LONG

    refused = speak(caller, HELLO | {"input": text, "model": "fake/metered-speech"}, Idempotency_Key="one")
    short = speak(caller, HELLO | {"model": "fake/metered-speech"}, Idempotency_Key="one")

    assert (403, "insufficient_balance") == error_code(refused)
    assert "insufficient_quota" == refused.json()["error"]["type"]
    assert "0.080000 CNY" == short.headers["x-service-charged"]
    assert [short.headers["x-service-job"]] == caller.newest()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("One. Two. Three.", ["One. Two.", "Three."]),
        ("abcdefghijklmnop", ["abcdefghij", "klmnop"]),
        ("aaaa bbbb cccc", ["aaaa bbbb", "cccc"]),
        ("語" * 7, ["語語語", "語語語", "語"]),
        ("One. Two. -----", ["One. Two."]),
        ("-" * 12, ["-" * 10]),
        ("一。”二三四", ["一。”", "二三四"]),
        ('"A bee." "Be."', ['"A bee."', '"Be."']),
        ("abc<力|LI4>", ["abc", "<力|LI4>"]),
    ],
)
def test_texts_are_cut_where_a_reader_would(text: str, pieces: list[str]) -> None:
    """At sentences, else clauses, else words, else anywhere but in an annotation. White space is lost,
    and so are pieces of which nothing can be spoken: their jobs would fail, and the request with them."""
    assert pieces == cut_at_sentences(text, 10)


def test_what_programs_look_up(client: "openai.OpenAI", caller: Caller) -> None:
    """Voices in both shapes, speech models, and one model by its name in either spelling."""
    voices = caller.get("/v1/audio/voices").json()
    models = {model["id"] for model in caller.get("/v1/audio/models").json()["models"]}
    shown = client.models.retrieve("fake/speech")
    spelt = [caller.get(f"/v1/models/{name}").json() for name in ("fake/speech", "fake%2Fspeech")]

    assert [voice["id"] for voice in voices["voices"]] == voices["data"]
    assert not any("emotion" == voice["kind"] for voice in voices["voices"])
    assert {"fake/speech", "fake/metered-speech"} == models
    assert "fake/speech" == shown.id
    assert spelt[0] == spelt[1]
    assert (404, "not_found") == error_code(caller.get("/v1/models/nobody/has-this"))


def test_a_restricted_key_speaks_with_its_own_model(operator: Operator) -> None:
    """OpenAI's names stand for a model that the key may use; another's name is refused with 403."""
    caller = operator.caller(models=["fake/metered-speech"])

    assert "fake/metered-speech" == request_of(caller, speak(caller, HELLO))["model"]
    assert (403, "model_not_allowed") == error_code(speak(caller, HELLO | {"model": "fake/speech"}))
