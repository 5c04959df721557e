"""VibeVoice-ASR through a real host, on a stand-in of its package: JSON that is whole, broken, or none."""

import json
from typing import Any

import pytest

from engines.adapters.adapted import Adapt, cancelled, tone
from tenuto.features.recognition.recognise_chunk import checked
from tenuto.host.host import Cancelled, EngineFailed

NAME = "vibevoice-asr"
SOUND = tone(300, 12)
ITEMS: list[dict[str, Any]] = [
    {"Start": 0, "End": 4.52, "Speaker": 0, "Content": "So, this is the new editor."},
    {"Start": 4.52, "End": 6.08, "Content": "[Environmental Sounds]"},
    {"Start": 6.08, "End": 9.41, "Speaker": 1, "Content": "And it renders straight away?"},
    {"Start": 9.41, "End": 11, "Speaker": "N/A", "Content": "[Silence]"},
]
TEXT = json.dumps(ITEMS)


def test_items_become_segments_with_speakers_and_types(adapt: Adapt) -> None:
    """Absent speakers and "N/A" are nobody; labels lose their brackets; times stay (R124)."""
    result = adapt(NAME, [f"assistant\n{TEXT}\n"]).run({}, {"audio": SOUND})
    kept = checked(result, "segment_text", 12.0)

    assert [
        (0, 4.52, "S01", "speech", "So, this is the new editor."),
        (4.52, 6.08, None, "noise", ""),
        (6.08, 9.41, "S02", "speech", "And it renders straight away?"),
        (9.41, 11, None, "silence", ""),
    ] == [(one["start"], one["end"], one["speaker"], one["type"], one["text"]) for one in kept["segments"]]
    assert [] == kept["doubts"]


def test_samples_are_brought_to_the_models_rate(adapt: Adapt) -> None:
    """The package takes what it is handed for 24 kHz, whatever rate is named: the times would be wrong."""
    model = adapt(NAME, [TEXT])
    model.heard(SOUND)
    (call,) = model.calls("generate")

    assert 12 * 24_000 == call["samples"]
    assert (False, 1024 + 12 * 24) == (call["do_sample"], call["max_new_tokens"])


def test_no_json_is_a_failure_and_no_silence(adapt: Adapt) -> None:
    """The package reads it as a recording in which nobody speaks; an empty list is one."""
    model = adapt(NAME, ["I cannot transcribe this.", "", "[]"])
    for _ in range(2):
        with pytest.raises(EngineFailed, match="no JSON"):
            model.heard(SOUND)

    assert {"segments": [], "doubts": []}.items() <= model.heard(SOUND).items()


@pytest.mark.parametrize("end", [-2, -30, -80])
def test_json_that_breaks_off_counts_as_far_as_it_is_whole(adapt: Adapt, end: int) -> None:
    """The model was stopped in the middle; what it wrote before is not thrown away, but doubted."""
    value = adapt(NAME, [TEXT[:end]]).heard(SOUND)
    count = len(value["segments"])

    assert 0 < count < len(ITEMS)
    assert [f"The model's answer broke off after {count} segments."] == value["doubts"]


def test_a_loop_is_stopped_and_doubted(adapt: Adapt) -> None:
    """Up to the limit of tokens, which leaves the sentence open: the items before it stay."""
    loop = TEXT[:-1] + ', {"Start": 11, "End": 12, "Speaker": 0, "Content": "' + "no, " * 9000
    value = adapt(NAME, [loop]).heard(SOUND)

    assert 4 == len(value["segments"])
    assert {"The model was stopped after 1312 tokens.", "The model's answer broke off after 4 segments."} == {
        *value["doubts"]
    }


@pytest.mark.parametrize(
    "item",
    [
        {"Start": None, "End": 3, "Content": "x"},
        {"Start": "soon", "End": 3, "Content": "x"},
        {"End": 3, "Content": "x"},
        {"Start": 5, "End": 3, "Content": "x"},
        {"Start": 50, "End": 60, "Content": "x"},
        {"Start": 1e400, "End": 1e400, "Content": "x"},
        {"Start": 0, "End": 10**400, "Content": "x"},
        {"Start": True, "End": 3, "Content": "x"},
    ],
)
def test_times_that_cannot_be_are_left_out_and_doubted(adapt: Adapt, item: dict[str, Any]) -> None:
    value = adapt(NAME, [json.dumps([*ITEMS, item])]).heard(SOUND)

    assert 4 == len(value["segments"])
    assert ["Segments with impossible times were left out: 1."] == value["doubts"]


def test_what_is_no_text_is_no_word(adapt: Adapt) -> None:
    """A list for a content, a map for a speaker; times as text, and a little behind the end, are taken."""
    odd = [{"Start": "1.5", "End": "12.9", "Speaker": {"id": 3}, "Content": ["x"]}, 7, None]
    (segment,) = adapt(NAME, [json.dumps(odd)]).heard(SOUND)["segments"]

    assert {"start": 1.5, "end": 12.0, "text": "", "speaker": None, "type": "speech"} == segment


def test_again_is_drawn_and_a_cancel_is_heard(adapt: Adapt) -> None:
    """Greed would find the same circle; between two tokens a run can be stopped."""
    model = adapt(NAME, [TEXT])
    model.heard(SOUND, again=True)
    with pytest.raises(Cancelled) as ended:
        model.run({}, {"audio": SOUND}, cancelled=cancelled())

    assert True is model.calls("generate")[0]["do_sample"]
    assert not ended.value.lost
