"""What OpenAI's routes for speech, images and transcripts do alike: keys, retries, restrictions, refusals."""

import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

import httpx2
import pytest

from servers import voices
from servers.callers import HELD, METERED, SPEECH, Caller, Operator, error_code, faults
from servers.openai_calls import CAT, HELLO, draw, jobs_of, request_of, sound, speak, transcribe
from servers.speed import at_least, within

pytestmark = pytest.mark.variant("database", only="postgresql")

Door = Callable[..., httpx2.Response]
"""A call with this work, in its usual form or in another, with more headers."""


def speech(caller: Caller, work: str = "Hold.", *, is_other: bool = False, **headers: str) -> httpx2.Response:
    form = {"response_format": "wav"} if is_other else {}
    return speak(caller, HELLO | {"input": work} | form, **headers)


def images(caller: Caller, work: str = "A.", *, is_other: bool = False, **headers: str) -> httpx2.Response:
    """Two of them."""
    form = {"output_format": "webp"} if is_other else {}
    return draw(caller, CAT | {"n": 2, "prompt": work} | form, **headers)


def transcript(caller: Caller, work: str = "", *, is_other: bool = False, **headers: str) -> httpx2.Response:
    form = {"response_format": "text"} if is_other else {}
    return transcribe(caller, recording_of(work), **form, **headers)


DOORS: tuple[Door, ...] = (speech, images, transcript)


@cache
def recording_of(work: str) -> bytes:
    """The same recording for the same word."""
    return sound()


@pytest.fixture
def caller(operator: Operator) -> Caller:
    """A new account that can pay."""
    return operator.caller(credit="100")


@pytest.mark.parametrize("door", DOORS)
def test_a_key_is_bound_to_the_work_and_not_to_the_form(caller: Caller, door: Door) -> None:
    """The same jobs for another form; other work under the same key is a conflict that no SDK retries."""
    key = str(uuid.uuid4())
    first = door(caller, Idempotency_Key=key)
    again = door(caller, is_other=True, Idempotency_Key=key)
    other = door(caller, "other", Idempotency_Key=key)

    assert jobs_of(first) == jobs_of(again)
    assert (None, "true") == tuple(each.headers.get("idempotent-replayed") for each in (first, again))
    assert (409, "idempotency_conflict") == error_code(other)
    assert "false" == other.headers["x-should-retry"]
    assert set(jobs_of(first)) == set(caller.newest())


@pytest.mark.parametrize("name", ["Idempotency_Key", "X_Stainless_Retry_Count"])
@pytest.mark.parametrize("door", [images, transcript])
def test_a_retry_is_its_request_whatever_the_models_name_means_by_then(
    operator: Operator, caller: Caller, door: Door, name: str
) -> None:
    """The name stands for nothing any more: the same jobs of the same work (P2)."""
    first = door(caller, **{name: "1"})
    operator.restrict(caller, [SPEECH])
    again = door(caller, is_other=True, **{name: "1"})

    assert 200 == again.status_code, again.text
    assert jobs_of(first) == jobs_of(again)


@pytest.mark.parametrize("name", ["Idempotency_Key", "X_Stainless_Retry_Count"])
def test_a_retry_speaks_as_its_request_did(paid: Operator, name: str) -> None:
    """`tts-1` stands for another model and the voice is deleted: the same job, paid once (P2)."""
    caller = paid.caller(credit="1")
    body = HELLO | {"voice": voices.own_voice(caller)}
    accepted = speak(caller, body, **{name: "1"} if name == "Idempotency_Key" else {})
    caller.request("DELETE", f"/v1/voices/{body['voice']}")
    paid.restrict(caller, [METERED])
    again = speak(caller, body, **{name: "1"})

    assert SPEECH == request_of(caller, accepted)["model"]
    assert (200, "true") == (again.status_code, again.headers.get("idempotent-replayed")), again.text
    assert jobs_of(accepted) == jobs_of(again)
    assert (950_000, 0) == paid.money(caller)


@pytest.mark.parametrize(("door", "path"), [(speech, "audio/speech"), (images, "images/generations")])
def test_the_same_request_twice_is_other_jobs_unless_it_is_declared_a_retry(
    caller: Caller, door: Door, path: str
) -> None:
    """A retry that OpenAI's SDK declares joins the jobs of its request, also those that were answered just
    now: the answer may not have arrived. Without a declaration nothing is guessed."""
    body: dict[str, Any] = {"model": "fake/image", "parameters": {"prompt": "[fake:sleep=50] x"}}
    lane = caller.block_lane() if door is speech else caller.post_job(body).json()["id"]
    caller.wait(lane, HELD)
    try:
        left = caller.http.build_request(
            "POST",
            f"/v1/{path}",
            headers={"Authorization": f"Bearer {caller.key}"},
            json=HELLO | {"input": "Hold."} if door is speech else CAT | {"n": 2, "prompt": "A."},
            extensions={"timeout": {"read": 0.5}},
        )
        with pytest.raises(httpx2.ReadTimeout):
            caller.http.send(left)
        waiting = {operation["id"] for operation in caller.get("/v1/jobs").json()["data"]} - {lane}
    finally:
        caller.cancel(lane)
    joined, missed = (door(caller, X_Stainless_Retry_Count=count) for count in ("1", "2"))
    separate = door(caller)

    assert [waiting] * 2 == [set(jobs_of(each)) for each in (joined, missed)]
    assert ["true"] * 2 == [each.headers["idempotent-replayed"] for each in (joined, missed)]
    assert not waiting & set(jobs_of(separate))
    assert 1 + 2 * len(waiting) == len(caller.get("/v1/jobs").json()["data"])


def test_a_restricted_key_uses_its_own_model(operator: Operator) -> None:
    """OpenAI's names stand for a model that the key may use, or for none; another's name is refused."""
    speaking, hearing = (
        operator.caller(credit="100", models=[model]) for model in (METERED, "fake/word-timestamps")
    )

    assert METERED == request_of(speaking, speech(speaking))["model"]
    assert "fake/word-timestamps" == request_of(hearing, transcript(hearing))["model"]
    assert [("model", "unknown_model")] == faults(images(hearing))
    for answer in (
        speak(speaking, HELLO | {"model": SPEECH}),
        draw(speaking, CAT | {"model": "fake/image"}),
        transcribe(hearing, sound(), model="fake/dual-recognition"),
    ):
        assert (403, "model_not_allowed") == error_code(answer)


def test_images_are_accepted_all_or_none(operator: Operator) -> None:
    """The hold of the third is refused: there is none of the others either, and the key stays free."""
    caller = operator.caller(credit="0.12")
    refused = draw(caller, CAT | {"n": 3}, Idempotency_Key="one")
    fewer = draw(caller, CAT | {"n": 2, "prompt": "A."}, Idempotency_Key="one")

    assert (403, "insufficient_balance") == error_code(refused)
    assert "0.100000 CNY" == fewer.headers["x-service-charged"]
    assert set(jobs_of(fewer)) == set(caller.newest())


@pytest.mark.parametrize(
    ("call", "change", "fault"),
    [
        (speak, {"model": "fake/image"}, ("model", "unknown_model")),
        (speak, {"model": None}, ("model", "required")),
        (speak, {"voice": "zorro"}, ("voice", "unknown_voice")),
        (speak, {"voice": 3}, ("voice", "wrong_type")),
        (speak, {"speed": 0.25}, ("speed", "out_of_range")),
        (speak, {"input": " \n\u3000"}, ("input", "empty")),
        (speak, {"response_format": "aac"}, ("response_format", "not_allowed")),
        (speak, {"stream_format": "smoke"}, ("stream_format", "not_allowed")),
        (speak, {"top_k": 1000}, ("top_k", "out_of_range")),
        (speak, {"voice_id": {"id": "x"}, "stream": True}, ("voice_id", "wrong_type")),
        (speak, {"emo_text": "Cheerful"}, ("emo_text", "requires")),
        (speak, {"lang_code": "fr"}, ("lang_code", "not_allowed")),
        (draw, {"model": "fake/speech"}, ("model", "unknown_model")),
        (draw, {"prompt": " \n"}, ("prompt", "empty")),
        (draw, {"n": 5}, ("n", "out_of_range")),
        (draw, {"n": "2"}, ("n", "wrong_type")),
        (draw, {"size": "large"}, ("size", "wrong_type")),
        (draw, {"size": "256x257"}, ("size", "out_of_range")),
        (draw, {"steps": 1000}, ("steps", "out_of_range")),
        (draw, {"num_inference_steps": 0}, ("num_inference_steps", "out_of_range")),
        (draw, {"seed": -1, "n": 2}, ("seed", "out_of_range")),
        (draw, {"output_format": "gif"}, ("output_format", "not_allowed")),
        (draw, {"stream": True}, ("stream", "not_allowed")),
        (transcribe, {"model": "fake/speech"}, ("model", "unknown_model")),
        (transcribe, {"model": ""}, ("model", "required")),
        (transcribe, {"response_format": "srt"}, ("response_format", "unsupported_format")),
        (transcribe, {"response_format": "smoke"}, ("response_format", "not_allowed")),
        (transcribe, {"stream": "perhaps"}, ("stream", "wrong_type")),
        (transcribe, {"timestamp_granularities[]": "word"}, ("timestamp_granularities", "not_allowed")),
        (transcribe, {"language": "a language with a long name"}, ("language", "too_long")),
        (transcribe, {"language": "xx"}, ("language", "not_allowed")),
        (transcribe, {"prompt": "x" * (130 << 10)}, ("prompt", "too_long")),
        (transcribe, {"prompt": "a\0b"}, ("prompt", "invalid_utf8")),
    ],
)
def test_what_is_wrong_is_said_in_the_clients_words(
    caller: Caller, call: Door, change: dict[str, Any], fault: tuple[str, str]
) -> None:
    """Always 400 with what would be right, and never 404: programs read that as a missing path."""
    if call is transcribe:
        answer = transcribe(caller, recording_of("wrong"), **change)
    else:
        answer = call(caller, (HELLO if call is speak else CAT) | change)

    assert {fault} == set(faults(answer))
    assert [] == caller.newest()


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
