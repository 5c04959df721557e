"""MOSS-Transcribe-Diarize through a real host, on a stand-in of its package: questions, labels, ends."""

import pytest

from engines.adapters.adapted import Adapt, tone
from tenuto.features.recognition.recognise_chunk import checked
from tenuto.host.host import EngineFailed

NAME = "moss-transcribe-diarize"
SPOKEN = "[0.48][S01]Welcome everyone[1.66][2.26][S02]The pipeline is ready[3.81][3.9][S01]Great[4.5]"
SOUND = tone(300, 5)


def test_words_have_speakers_and_times(adapt: Adapt) -> None:
    """The worker's check takes the transcript as it is (R124)."""
    model = adapt(NAME, [SPOKEN])
    result = model.run({}, {"audio": SOUND})
    kept = checked(result, "segment_text", 5.0)

    assert [
        (0.48, 1.66, "S01", "Welcome everyone"),
        (2.26, 3.81, "S02", "The pipeline is ready"),
        (3.9, 4.5, "S01", "Great"),
    ] == [(one["start"], one["end"], one["speaker"], one["text"]) for one in kept["segments"]]
    assert ([], []) == (kept["warnings"], kept["doubts"])
    assert {"model_id": "OpenMOSS-Team/MOSS-Transcribe-Diarize", "model_revision": "7"} == result.metadata


@pytest.mark.parametrize(
    ("probed", "is_chinese"),
    [
        ("[0.1][S01]大家好，今天我们开始吧[2.0]", True),
        ("[0.1][S01]Hello[2.0]", False),
        ("[0.1][S01]今日は良い天気ですね[2.0]", False),
        ("一段没有时间的中文", False),
        ("", False),
    ],
)
def test_the_question_is_in_the_language_that_suits(adapt: Adapt, probed: str, is_chinese: bool) -> None:
    """Asked in Chinese about other speech the model makes things up: a short stretch says how to ask."""
    model = adapt(NAME, [probed, SPOKEN])
    model.heard(tone(300, 60))
    probe, whole = model.calls("generate")

    assert (True, is_chinese) == ("请将" in probe["question"], "请将" in whole["question"])
    assert (20 * 16_000, 60 * 16_000) == (probe["samples"], whole["samples"])
    assert (False, 512 + 60 * 20) == (whole["do_sample"], whole["max_new_tokens"])


def test_sounds_are_labels_without_words_or_speakers(adapt: Adapt) -> None:
    """What is not understood stays speech; a bracket in the middle of words is a word."""
    said = ("[Music]", "(laughter)", "（静音）", "[unintelligible]", "Press [x] now")
    text = "".join(f"[{at}][S0{at // 2 + 1}]{words}[{at + 1}]" for at, words in enumerate(said))
    segments = adapt(NAME, [text], question="en").heard(SOUND)["segments"]

    assert [
        ("music", None, ""),
        ("noise", None, ""),
        ("silence", None, ""),
        ("speech", "S02", ""),
        ("speech", "S03", "Press [x] now"),
    ] == [(one["type"], one["speaker"], one["text"]) for one in segments]


def test_what_the_model_leaves_out_is_doubted(adapt: Adapt) -> None:
    """Words without times, times behind the part's end, a text that was stopped: the worker hears of each."""
    lost = SPOKEN + "[S02] and then there were a good many words without any time at all"
    beyond = SPOKEN + "[90.0][S01]Much later[95.0]"
    endless = "[0.1][S01]" + "no, " * 400
    model = adapt(NAME, [lost, beyond, SPOKEN + endless], question="en")
    doubts = [model.heard(SOUND)["doubts"] for _ in range(3)]

    assert ["Some of the words have no times and were left out."] == doubts[0]
    assert ["Segments with impossible times were left out: 1."] == doubts[1]
    assert "The model was stopped after 612 tokens." in doubts[2]


def test_a_text_without_times_is_a_failure(adapt: Adapt) -> None:
    """Nothing of it can be placed: no empty transcript is made of it."""
    model = adapt(NAME, ["Words, words, words", ""], question="en")
    with pytest.raises(EngineFailed, match="no times"):
        model.heard(SOUND)

    assert [] == model.heard(SOUND)["segments"]
