"""The parameters of a speech job: every bound, every type, every rule between them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.errors import InvalidRequest
from tenuto.features.speech import parameters as speech
from tenuto.kind.envelope import Envelope
from tenuto.rules import WHITE_SPACE

BOOLEANS = ["stream", "use_emo_text", "use_random", "text_normalization", "do_sample"]
INTEGERS = {"interval_silence": (0, 2000), "max_text_tokens_per_segment": (20, 200), "top_k": (1, 100)}
NUMBERS = {
    "duration_factor": (0.5, 2.0),
    "emo_alpha": (0.0, 1.0),
    "top_p": (0.01, 1.0),
    "temperature": (0.1, 2.0),
    "repetition_penalty": (0.1, 20.0),
}
# The contract's table, written down once more.
DEFAULTS = {
    "stream": False,
    "voice_id": None,
    "lang": "zh",
    "duration_factor": 1,
    "emotion_voice_id": None,
    "emo_alpha": 1,
    "emo_vector": None,
    "use_emo_text": False,
    "emo_text": None,
    "use_random": False,
    "interval_silence": 200,
    "max_text_tokens_per_segment": 120,
    "text_normalization": True,
    "do_sample": True,
    "top_p": 0.8,
    "top_k": 30,
    "temperature": 0.8,
    "repetition_penalty": 10,
}
SHARED = {
    "duration_factor": 1.1,
    "interval_silence": 350,
    "max_text_tokens_per_segment": 80,
    "use_random": False,
    "use_emo_text": False,
}


def faults(**parameters: Any) -> list[tuple[str, str]]:
    """Which faults parameters have; a text is added if none is given."""
    parsed, found = speech.check({"text": "好"} | parameters)
    assert (parsed is None) == bool(found)
    return [(fault.param.removeprefix("parameters."), fault.code) for fault in found]


def message(**parameters: Any) -> str:
    _, found = speech.check({"text": "好"} | parameters)
    return " | ".join(fault.message for fault in found)


def test_text_alone() -> None:
    """A text is enough: everything else has the contract's default, and no voice is named (R71–R91, R106)."""
    parsed = speech.parse({"text": "你好"})

    assert {"text": "你好", **DEFAULTS} == speech.resolved(parsed, None)
    assert frozenset({"text"}) == parsed.explicit


def test_struct_and_table_agree() -> None:
    """The struct has the names and defaults of the table, and the table those of the contract."""
    table = {field.name: field.default for field in speech.FIELDS if not field.required}
    parsed = speech.SpeechParameters(text="x")

    assert table == DEFAULTS
    assert table == {name: getattr(parsed, name) for name in table}
    assert ["text"] == [field.name for field in speech.FIELDS if field.required]
    assert ["text", *DEFAULTS] == [field.name for field in speech.FIELDS]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x" * 8192, []),
        ("x" * 8193, [("text", "too_long")]),
        ("好" * 2730 + "xx", []),
        ("好" * 2731, [("text", "too_long")]),
        ("\U0001f600" * 2048, []),
        ("\U0001f600" * 2048 + "x", [("text", "too_long")]),
        ("<好|hao3>" * 819 + "x" * 3, [("text", "too_long")]),
        ("", [("text", "empty")]),
        (" ", [("text", "white_space")]),
        (" " * 8193, [("text", "too_long"), ("text", "white_space")]),
        ("a b\n\u3000c", []),
        ("\u200bx\u200b", []),
        (None, [("text", "wrong_type")]),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_text(text: Any, expected: list[tuple[str, str]]) -> None:
    """The text has 1–8,192 bytes of UTF-8, annotations included, not characters (R68, R69, R97)."""
    assert expected == faults(text=text)


@pytest.mark.parametrize("blank", [" ", "\u3000\n", " " * 2048])
def test_an_emo_text_of_white_space_is_none(blank: str) -> None:
    """It is refused as an empty one is: no emotion could be taken from it (R81)."""
    assert [("emo_text", "empty")] == faults(use_emo_text=True, emo_text=blank)
    assert [] == faults(use_emo_text=True, emo_text=f"{blank[:9]}x{blank[:9]}")


def test_white_space_at_the_ends() -> None:
    """White space at either end is refused, whichever it is; U+200B is none (R70)."""
    refused = {
        mark
        for mark in map(chr, [*range(1, 0xD800), *range(0xE000, 0x11000)])
        if faults(text=mark + "x") or faults(text="x" + mark)
    }

    assert refused == WHITE_SPACE
    assert refused == {
        mark for mark in map(chr, range(0x11000)) if mark.isspace() and mark not in "\x1c\x1d\x1e\x1f"
    }


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_text_is_kept_as_it_is(text: str) -> None:
    """An accepted text is never trimmed, normalised or rewritten (R101)."""
    parsed, found = speech.check({"text": text})

    if parsed is None:
        assert {"white_space"} == {fault.code for fault in found}
    else:
        assert text == parsed.text


@pytest.mark.parametrize("name", ["voice_id", "emotion_voice_id"])
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("v", None),
        ("好" * 100, None),
        ("v" * 101, "too_long"),
        ("", "empty"),
        (None, "wrong_type"),
        (1, "wrong_type"),
    ],
)
def test_voice_ids(name: str, value: Any, code: str | None) -> None:
    """A voice id is a string that is not empty; whether the voice exists is asked elsewhere (R72, R77)."""
    assert ([(name, code)] if code else []) == faults(**{name: value})


@pytest.mark.parametrize(
    ("lang", "code"),
    [
        *((lang, None) for lang in ("zh", "en", "ja", "es", "ar")),
        *((lang, "not_allowed") for lang in ("fr", "ZH", "")),
        *((lang, "wrong_type") for lang in (None, 1)),
    ],
)
def test_languages(lang: Any, code: str | None) -> None:
    """Five are spoken; any other, or one written otherwise, is refused (R74)."""
    assert ([("lang", code)] if code else []) == faults(lang=lang)


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("value", [0, 1, 1.0, "true", "", None, [], {}])
def test_booleans(name: str, value: Any) -> None:
    """A boolean is `true` or `false` and nothing that stands for it (R71, R80, R83, R86, R87, R92)."""
    assert [] == faults(**{name: True})
    assert [] == faults(**{name: False})
    assert [(name, "wrong_type")] == faults(**{name: value})


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_bounds(name: str) -> None:
    """An integer is taken at its limits and one inside them, and refused one outside (R84, R85, R89)."""
    low, high = INTEGERS[name]
    outside = [(name, "out_of_range")]

    assert [] == [fault for value in (low, low + 1, high - 1, high) for fault in faults(**{name: value})]
    assert [outside] * 4 == [faults(**{name: value}) for value in (low - 1, high + 1, 2**63, -1e300)]


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [30.5, "30", True, False, None, [30], math.nan])
def test_integer_types(name: str, value: Any) -> None:
    """An integer is a whole number: not `30.5`, `"30"` or `true` (R92)."""
    assert [(name, "wrong_type")] == faults(**{name: value})


@pytest.mark.parametrize("name", NUMBERS)
def test_number_bounds(name: str) -> None:
    """A number is taken at its limits and just inside, refused just outside (R75, R78, R88–R91)."""
    low, high = NUMBERS[name]
    inside = (low, math.nextafter(low, high), math.nextafter(high, low), high)
    outside = (math.nextafter(low, -math.inf), math.nextafter(high, math.inf), low - 1, high + 1)
    endless = (math.nan, math.inf, -math.inf, 10**400, -(10**400))

    assert [] == [fault for value in inside for fault in faults(**{name: value})]
    assert [[(name, "out_of_range")]] * 9 == [faults(**{name: value}) for value in (*outside, *endless)]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["1", True, False, None, [1], {}])
def test_number_types(name: str, value: Any) -> None:
    """A number is no string and no boolean (R92)."""
    assert [(name, "wrong_type")] == faults(**{name: value})


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        ([0, 0.0, 1, 1.0, 0.5, 0.1, 0.2, 0.3], []),
        ([0] * 8, []),
        ([0] * 7, [("emo_vector", "wrong_length")]),
        ([0] * 9, [("emo_vector", "wrong_length")]),
        ([], [("emo_vector", "wrong_length")]),
        (
            [2] * 100_000,
            [("emo_vector", "wrong_length"), *((f"emo_vector[{i}]", "out_of_range") for i in range(8))],
        ),
        ([0, 0, 0, 1.0000000000000002, 0, 0, 0, 0], [("emo_vector[3]", "out_of_range")]),
        ([0, -5e-324, 0, 0, 0, 0, 0, 0], [("emo_vector[1]", "out_of_range")]),
        ([math.nan, 0, 0, 0, 0, 0, 0, 0], [("emo_vector[0]", "out_of_range")]),
        (
            [True, "1", None, [1], 0, 0, 0, {}],
            [(f"emo_vector[{index}]", "wrong_type") for index in (0, 1, 2, 3, 7)],
        ),
        ("00000000", [("emo_vector", "wrong_type")]),
        ({}, [("emo_vector", "wrong_type")]),
        (None, [("emo_vector", "wrong_type")]),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_emo_vector(vector: Any, expected: list[tuple[str, str]]) -> None:
    """`emo_vector` has exactly eight numbers, each from 0 to 1 (R79)."""
    assert expected == faults(emo_vector=vector)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"use_emo_text": False, "emotion_voice_id": "v"}, []),
        ({"use_emo_text": False, "emo_vector": [0] * 8}, []),
        ({"emo_alpha": 0.5, "emotion_voice_id": "v"}, []),
        ({"use_emo_text": True}, []),
        ({"use_emo_text": True, "emo_text": "happy", "emo_alpha": 0.3}, []),
        ({"emotion_voice_id": "v", "emo_vector": [0] * 8}, ["emotion_voice_id", "emo_vector"]),
        ({"emotion_voice_id": "v", "use_emo_text": True}, ["emotion_voice_id", "use_emo_text"]),
        ({"emo_vector": [1] * 8, "use_emo_text": True, "emo_text": "x"}, ["emo_vector", "use_emo_text"]),
        (
            {"emo_vector": [1] * 8, "use_emo_text": True, "emotion_voice_id": "v"},
            ["emotion_voice_id", "emo_vector", "use_emo_text"],
        ),
    ],
)
def test_emotion_modes_exclude_each_other(parameters: dict[str, Any], expected: list[str]) -> None:
    """More than one is refused, each of them named; a vector of zeros counts, `emo_alpha` is none (R93)."""
    assert [(name, "conflict") for name in expected] == faults(**parameters)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"emo_text": "happy"}, [("emo_text", "requires")]),
        ({"emo_text": "happy", "use_emo_text": False}, [("emo_text", "requires")]),
        ({"emo_text": ""}, [("emo_text", "empty"), ("emo_text", "requires")]),
        ({"emo_text": "happy", "use_emo_text": "true"}, [("use_emo_text", "wrong_type")]),
        ({"use_emo_text": 1, "emo_vector": [0] * 8}, [("use_emo_text", "wrong_type")]),
        ({"emo_text": None}, [("emo_text", "wrong_type")]),
        ({"emo_text": "happy", "emo_vector": [0] * 8}, [("emo_text", "requires")]),
    ],
)
def test_emo_text_requires_its_mode(parameters: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """`emo_text` is used only with `use_emo_text: true` (R82)."""
    assert expected == faults(**parameters)


def test_unknown_names() -> None:
    """Unknown names are refused one by one, raw reference audio among them, and near ones suggested (R99)."""
    expected = [("languag", "unknown_name"), ("reference_audio", "unknown_name"), ("Text", "unknown_name")]

    assert expected == faults(languag="zh", reference_audio="UklGRg==", Text="x")
    assert "did you mean lang?" in message(languag="zh")
    assert "leave it out" in message(reference_audio="x")


def test_many_unknown_names() -> None:
    """A flood of unknown names, or one of any length, makes a short answer."""
    many = faults(**{f"name_{index}": 1 for index in range(100_000)})
    long = faults(**{"n" * 500_000: 1, "": 1, "a\u0085b": 1})

    assert 17 == len(many)
    assert "has 99984 more unknown names" in message(**{f"name_{index}": 1 for index in range(100_000)})
    assert ["n" * 40 + "…", '""', "a\\u0085b"] == [param for param, _ in long]


def test_all_faults_at_once() -> None:
    """Everything that is wrong is told in one answer, in the caller's order, and nothing that is right."""
    parameters = {
        "lang": "fr",
        "top_k": 0,
        "speed": 2,
        "stream": 1,
        "top_p": 0.5,
        "emo_text": "x",
        "text": " x",
    }
    with pytest.raises(InvalidRequest) as refused:
        speech.parse(parameters)

    params = ["lang", "top_k", "stream", "text", "speed", "emo_text"]
    assert [f"parameters.{name}" for name in params] == [fault.param for fault in refused.value.faults]
    assert "parameters.lang" == refused.value.param


def test_shared_voice_defaults() -> None:
    """A voice's own defaults stand before the contract's, and what the caller gave before both (R94–R96)."""
    plain = speech.resolved(speech.parse({"text": "x"}), SHARED)
    given = speech.resolved(
        speech.parse({"text": "x", "duration_factor": 1, "interval_silence": 200, "use_random": True}), SHARED
    )

    assert {"text": "x", **DEFAULTS, **SHARED} == plain
    assert {
        "text": "x",
        **DEFAULTS,
        "duration_factor": 1.0,
        "max_text_tokens_per_segment": 80,
        "use_random": True,
    } == given


@pytest.mark.parametrize(("ids", "expected"), [(None, 0), ((), 1), (("artifact_x",), 1)])
def test_no_inputs(ids: tuple[str, ...] | None, expected: int) -> None:
    """A speech job carries no inputs, not even an empty list of them (R98, R100)."""
    envelope = Envelope(model="m", parameters={"text": "x"}, input_artifact_ids=ids)

    assert expected == len(speech.check_job(envelope)[1])


@given(
    st.dictionaries(
        st.sampled_from([field.name for field in speech.FIELDS]) | st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=10,
        ),
    )
)
def test_any_parameters(parameters: dict[str, Any]) -> None:
    """Whatever is sent is sound or has faults that can be answered in UTF-8; nothing else is raised."""
    parsed, found = speech.check(parameters)

    assert (parsed is None) == bool(found)
    assert all((fault.param + fault.message).encode() for fault in found)
