"""The table of synthesis parameters over HTTP: each field at its bounds, and one of each kind of fault.

Every type and every rule between them are in tests/features/speech.
Accepted bodies carry a text that makes the fake engine fail at once: what counts is that they are accepted.
"""

from typing import Any

from servers.callers import ON_ONE_DATABASE, Caller, job

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
EIGHT = [0] * 8
FAULTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"text": ""}, "text empty"),
    ({"text": "x" * 8193}, "text too_long"),
    ({"text": "x "}, "text white_space"),
    ({"lang": "ZH"}, "lang not_allowed"),
    ({"use_emo_text": True, "emo_text": ""}, "emo_text empty"),
    ({"use_emo_text": True, "emo_text": "字" * 683}, "emo_text too_long"),
    ({"emo_text": "glad"}, "emo_text requires"),
    ({"emo_vector": [0] * 9}, "emo_vector wrong_length"),
    ({"emo_vector": [-0.001, "1", *[0] * 6]}, "emo_vector[0] out_of_range, emo_vector[1] wrong_type"),
    ({"emo_vector": EIGHT, "use_emo_text": True}, "emo_vector conflict, use_emo_text conflict"),
    ({"voice_id": "voice_00000000000000000000000000"}, "voice_id unknown_voice"),
    ({"emotion_voice_id": "../x"}, "emotion_voice_id unknown_voice"),
    ({"reference_audio": "UklGRg=="}, "reference_audio unknown_name"),
)


def test_what_is_within_its_bounds_is_taken(caller: Caller) -> None:
    """Bounds are inclusive; texts are measured in bytes, numbers have either form, rules have exceptions."""
    short = QUICK + "x"
    longest = QUICK + "字" * 2726 + "x"
    bodies = [
        *(job(text) for text in (longest, "x", f"{QUICK}x\u3000x")),
        *(job(short, **{name: each}) for name, both in (INTEGERS | NUMBERS).items() for each in both),
        *(job(short, **dict[str, Any]({name: float(high)})) for name, (_, high) in NUMBERS.items()),
        *(job(short, lang=lang) for lang in ("zh", "en", "ja", "es", "ar")),
        job(short, emo_vector=EIGHT),
        job(short, use_emo_text=True, emo_text="字" * 682 + "xx"),
        job(short, use_emo_text=False, emo_alpha=0.5, emo_vector=EIGHT),
    ]

    assert 8192 == len(longest.encode())
    assert [(202, None)] * len(bodies) == [
        (answer.status_code, answer.json().get("error")) for answer in map(caller.post_job, bodies)
    ]


def test_what_is_beyond_its_bounds_is_refused(caller: Caller) -> None:
    """One step beyond either bound (R75, R78, R84, R85, R88–R91)."""
    for name, (low, high) in (INTEGERS | NUMBERS).items():
        step = 1 if name in INTEGERS else 0.0001
        for value in (low - step, high + step):
            assert [(f"parameters.{name}", "out_of_range")] == caller.refused(job("x", **{name: value}))


def test_a_value_of_another_type_is_refused(caller: Caller) -> None:
    """Nothing is converted, and null is not the same as leaving a field out (R68, R71, R92)."""
    for name in (*INTEGERS, *NUMBERS, *BOOLEANS, "text", "lang", "voice_id", "emo_vector"):
        found = caller.refused({"model": "fake/speech", "parameters": {"text": "x", name: None}})
        assert [(f"parameters.{name}", "wrong_type")] == found


def test_each_kind_of_fault_is_named(caller: Caller) -> None:
    """By its parameter, and nothing is stored (R13, R25, R69–R74, R77, R79–R82, R93, R97, R99, R207)."""
    for parameters, expected in FAULTS:
        found = caller.refused({"model": "fake/speech", "parameters": {"text": "x"} | parameters})
        assert expected.split(", ") == [f"{name.removeprefix('parameters.')} {code}" for name, code in found]


def test_all_faulty_parameters_are_named_at_once(caller: Caller) -> None:
    """A body in which everything is wrong is answered with everything (R207)."""
    wrong: dict[str, Any] = dict.fromkeys([*INTEGERS, *NUMBERS], 10**6) | dict.fromkeys(BOOLEANS, 1)
    wrong |= {"lang": "de", "emo_vector": [2] * 8, "emo_text": "", "voice_id": "x", "unknown": 1}
    found = caller.refused(job("x ", **wrong))

    assert {*(f"parameters.{name}" for name in [*wrong, "text"])} <= {
        param.partition("[")[0] for param, _ in found
    }
    assert len(found) == len(wrong) + 8
