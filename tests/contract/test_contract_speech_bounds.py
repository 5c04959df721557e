"""The table of synthesis parameters over HTTP: each field, and one of each kind of fault.

Every bound from both sides, every type and every rule between them are in tests/features/speech.
Accepted bodies carry a text that makes the fake engine fail at once: what counts is that they are accepted.
"""

from typing import Any

import pytest

from servers.callers import ON_ONE_DATABASE, Caller, Faults, job

pytestmark = ON_ONE_DATABASE

QUICK = "[fake:raise] "
BOOLEANS = ("stream", "use_emo_text", "use_random", "text_normalization", "do_sample")
INTEGERS: dict[str, tuple[Any, Any]] = {
    "interval_silence": (0, 2000),
    "max_text_tokens_per_segment": (20, 200),
    "top_k": (1, 100),
}
NUMBERS: dict[str, tuple[Any, Any]] = {
    "duration_factor": (0.5, 2),
    "emo_alpha": (0, 1),
    "top_p": (0.01, 1),
    "temperature": (0.1, 2),
    "repetition_penalty": (0.1, 20),
}


def out_of(size: int, *, measure: str = "x") -> str:
    """A quick text of exactly this many bytes, most of them in characters of this one's length."""
    length = len(measure.encode())
    room = size - len(QUICK)
    return QUICK + measure * (room // length) + "x" * (room % length)


@pytest.mark.parametrize("measure", ["字", "<行|hang2>"])
def test_the_text_is_measured_in_bytes(caller: Caller, measure: str) -> None:
    """8,192 bytes of UTF-8 are taken, whatever the characters or annotations; 8,193 are not (R69, R97)."""
    accepted = [caller.post_job(job(out_of(size, measure=measure))).status_code for size in (8191, 8192)]

    assert [202, 202] == accepted
    assert [("parameters.text", "too_long")] == caller.refused(job(out_of(8193, measure=measure)))


def test_the_shortest_text_is_one_byte(caller: Caller) -> None:
    """One byte is a text, none is not (R69)."""
    assert 202 == caller.post_job(job("x")).status_code
    assert [("parameters.text", "empty")] == caller.refused(job(""))


@pytest.mark.parametrize("mark", [" ", "\u3000"])
def test_white_space_at_the_ends_of_the_text_is_refused(caller: Caller, mark: str) -> None:
    """No white space of Unicode stands at either end, nor alone; inside it is text (R70)."""
    expected = [("parameters.text", "white_space")]

    assert [expected] * 3 == [caller.refused(job(text)) for text in (mark + "x", "x" + mark, mark)]
    assert 202 == caller.post_job(job(f"{QUICK}x{mark}x")).status_code


@pytest.mark.parametrize(
    ("size", "expected"),
    [(2048, None), (2049, "too_long"), (0, "empty")],
)
def test_emo_text_is_measured_in_bytes(caller: Caller, size: int, expected: str | None) -> None:
    """emo_text has 1 to 2,048 bytes, not characters (R81)."""
    emo_text = "字" * (size // 3) + "x" * (size % 3)
    body = job(QUICK + "x", use_emo_text=True, emo_text=emo_text)

    if expected is None:
        assert 202 == caller.post_job(body).status_code
    else:
        assert [("parameters.emo_text", expected)] == caller.refused(body)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_taken_within_their_bounds(caller: Caller, name: str) -> None:
    """An integer is taken from its lower to its upper bound, one beyond is refused (R84, R85, R89)."""
    low, high = INTEGERS[name]
    inside: list[Any] = [low, high]
    outside: list[Any] = [low - 1, high + 1]

    assert [202] * 2 == [caller.post_job(job(QUICK + "x", **{name: value})).status_code for value in inside]
    for value in outside:
        assert [(f"parameters.{name}", "out_of_range")] == caller.refused(job("x", **{name: value}))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_taken_within_their_bounds(caller: Caller, name: str) -> None:
    """A number is taken from its lower to its upper bound in either form (R75, R78, R88, R90, R91)."""
    low, high = NUMBERS[name]
    inside: list[Any] = [low, high, float(high)]
    outside: list[Any] = [low - 0.0001, high + 0.0001]

    assert [202] * 3 == [caller.post_job(job(QUICK + "x", **{name: value})).status_code for value in inside]
    for value in outside:
        assert [(f"parameters.{name}", "out_of_range")] == caller.refused(job("x", **{name: value}))


@pytest.mark.parametrize("name", [*INTEGERS, *NUMBERS, *BOOLEANS, "text", "lang", "voice_id", "emo_vector"])
def test_a_value_of_another_type_is_refused(caller: Caller, name: str) -> None:
    """Nothing is converted, and null is not the same as leaving a field out (R68, R71, R92)."""
    wrong: list[Any] = [None, {}, *([] if name in NUMBERS else [30.5]), *([] if name in BOOLEANS else [True])]

    for value in wrong:
        found = caller.refused({"model": "fake/speech", "parameters": {"text": "x", name: value}})
        assert [(f"parameters.{name}", "wrong_type")] == found, value


@pytest.mark.parametrize("lang", ["zh", "en", "ja", "es", "ar"])
def test_five_languages_are_taken(caller: Caller, lang: str) -> None:
    """zh, en, ja, es and ar are languages (R74)."""
    assert 202 == caller.post_job(job("x", lang=lang)).status_code


@pytest.mark.parametrize("lang", ["", "ZH", "de"])
def test_no_other_language_is_taken(caller: Caller, lang: str) -> None:
    """A language is written exactly so, and there are no others (R74)."""
    assert [("parameters.lang", "not_allowed")] == caller.refused(job("x", lang=lang))


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        ([0] * 8, []),
        ([0] * 9, [("parameters.emo_vector", "wrong_length")]),
        (
            [-0.001, "1", *[0] * 5, None],
            [
                ("parameters.emo_vector[0]", "out_of_range"),
                ("parameters.emo_vector[1]", "wrong_type"),
                ("parameters.emo_vector[7]", "wrong_type"),
            ],
        ),
    ],
)
def test_the_emotion_vector_is_eight_numbers(caller: Caller, vector: list[Any], expected: Faults) -> None:
    """emo_vector has exactly eight numbers from 0 to 1; each faulty one is named (R79)."""
    body = job(QUICK + "x", emo_vector=vector)

    if expected:
        assert expected == caller.refused(body)
    else:
        assert 202 == caller.post_job(body).status_code


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"use_emo_text": True, "emo_text": "glad"}, []),
        ({"use_emo_text": False, "emo_alpha": 0.5, "emo_vector": [0] * 8}, []),
        ({"emo_vector": [0] * 8, "use_emo_text": True}, ["emo_vector", "use_emo_text"]),
    ],
)
def test_one_way_to_set_the_emotion(caller: Caller, parameters: dict[str, Any], expected: list[str]) -> None:
    """Two ways to set the emotion conflict, a vector of zeros too; each is named (R80, R93, R207)."""
    body = job(QUICK + "x", **parameters)

    if expected:
        assert [(f"parameters.{name}", "conflict") for name in expected] == caller.refused(body)
    else:
        assert 202 == caller.post_job(body).status_code


def test_an_emotion_voice_excludes_the_other_ways(caller: Caller) -> None:
    """emotion_voice_id conflicts with a vector and a text, whether or not the voice exists (R77, R93)."""
    found = caller.refused(job("x", emotion_voice_id="voice_x", emo_vector=[0] * 8, use_emo_text=True))

    assert [
        ("parameters.emo_vector", "conflict"),
        ("parameters.emotion_voice_id", "conflict"),
        ("parameters.emotion_voice_id", "unknown_voice"),
        ("parameters.use_emo_text", "conflict"),
    ] == found


@pytest.mark.parametrize("parameters", [{}, {"use_emo_text": False}])
def test_emo_text_needs_its_mode(caller: Caller, parameters: dict[str, Any]) -> None:
    """emo_text without use_emo_text true is refused (R82)."""
    found = caller.refused(job("x", emo_text="glad", **parameters))

    assert [("parameters.emo_text", "requires")] == found


@pytest.mark.parametrize("name", ["voice_id", "emotion_voice_id"])
@pytest.mark.parametrize("voice_id", ["voice_00000000000000000000000000", "../x"])
def test_a_voice_that_is_not_there_is_refused(caller: Caller, name: str, voice_id: str) -> None:
    """An unknown or malformed voice id is a 400 that names the parameter (R72, R73, R77)."""
    assert [(f"parameters.{name}", "unknown_voice")] == caller.refused(job("x", **{name: voice_id}))


@pytest.mark.parametrize(
    "name",
    ["speed", "reference_audio", ""],
)
def test_an_unknown_parameter_is_refused(caller: Caller, name: str) -> None:
    """No other name is taken, raw reference audio neither (R13, R25, R99, R207)."""
    found = caller.refused(job("x", **{name: "UklGRg=="}))

    assert [(f"parameters.{name}" if name else 'parameters.""', "unknown_name")] == found


def test_all_faulty_parameters_are_named_at_once(caller: Caller) -> None:
    """A body in which everything is wrong is answered with everything (R207)."""
    wrong: dict[str, Any] = dict.fromkeys([*INTEGERS, *NUMBERS], 10**6) | dict.fromkeys(BOOLEANS, 1)
    wrong |= {"lang": "de", "emo_vector": [2] * 8, "emo_text": "", "voice_id": "x", "unknown": 1}
    found = caller.refused(job("x ", **wrong))

    assert {*(f"parameters.{name}" for name in [*wrong, "text"])} <= {
        param.partition("[")[0] for param, _ in found
    }
    assert len(found) == len(wrong) + 8
