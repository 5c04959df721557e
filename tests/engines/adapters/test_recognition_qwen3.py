"""Qwen3-ASR through a real host, on a stand-in of its package: names of languages, aligned words, pieces."""

from typing import Any

import pytest

from engines.adapters.adapted import Adapt, cancelled, tone
from tenuto.features.recognition.recognise_chunk import checked
from tenuto.host.host import Cancelled

NAME = "qwen3-asr"
TEXT = "Don't go, Mr. Smith! It's 3.5 miles; we wait."
ITEMS = [
    *(("Don't", 0.1, 0.4), ("go", 0.4, 0.6), ("Mr", 0.7, 0.9), ("Smith", 0.9, 1.3), ("It's", 1.6, 1.8)),
    *(("35", 1.8, 2.2), ("miles", 2.2, 2.6), ("we", 3.9, 4.0), ("wait", 4.0, 4.4)),
]


def spans(value: dict[str, Any]) -> list[tuple[float, float, str]]:
    return [(one["start"], one["end"], one["text"]) for one in value["segments"]]


def test_aligned_words_become_sentences_with_the_texts_own_marks(adapt: Adapt) -> None:
    """The aligner drops the marks; a pause and the end of a sentence end a segment (R126)."""
    model = adapt(NAME, [[TEXT, ITEMS]], aligner_dir="/aligner")
    result = model.run({"language": "en"}, {"audio": tone(300, 5)})
    kept = checked(result, "word_timestamps", 5.0)

    assert [
        (0.1, 0.9, "Don't go, Mr."),
        (0.9, 1.3, "Smith!"),
        (1.6, 2.6, "It's 3.5 miles;"),
        (3.9, 4.4, "we wait."),
    ] == spans(kept)
    assert ([], []) == (kept["warnings"], kept["doubts"])


def test_words_without_spaces_are_aligned_by_character(adapt: Adapt) -> None:
    text = "今天天气很好。我们走吧！"
    items = [(sign, number / 4, number / 4 + 0.25) for number, sign in enumerate("今天天气很好我们走吧")]
    model = adapt(NAME, [[text, items]], aligner_dir="/aligner")

    assert [(0, 1.5, "今天天气很好。"), (1.5, 2.5, "我们走吧！")] == spans(
        model.heard(tone(300, 4), language="zh-CN")
    )


def test_languages_have_the_packages_names(adapt: Adapt) -> None:
    """It refuses "zh"; what nobody knows it finds out itself, and that is told (R114)."""
    model = adapt(NAME, ["words", "words", "", "words"], aligner_dir="/aligner")
    told = [model.heard(tone(300, 3), language=said) for said in ("zh", "ar", "Klingon", None)]

    assert ["Chinese", "Arabic", None, None] == [call["language"] for call in model.calls("transcribe")]
    assert [True, False, False, False] == [call["aligned"] for call in model.calls("transcribe")]
    assert [[], [], ["The language 'Klingon' is not known; English was heard."]] == [
        value["warnings"] for value in told[:3]
    ]
    assert ([], "en") == (told[3]["warnings"], told[3]["language"])


def test_long_sound_goes_in_pieces_cut_where_it_is_quiet(adapt: Adapt) -> None:
    """So that a cancel is heard, the package's own cuts and its limit of tokens never come into play."""
    quiet, talk = bytes(2 * 16_000), tone(300, 99)
    aligned = adapt(NAME, [["", []]], aligner_dir="/aligner")
    aligned.heard(talk + quiet + talk + quiet, language="es")
    plain = adapt(NAME, ["uno dos tres"])
    value = plain.heard(tone(300, 12) + quiet + tone(300, 7), language="es")

    assert [pytest.approx(99.5, abs=0.6), pytest.approx(100.5, abs=0.6)] == [
        call["seconds"] for call in aligned.calls("transcribe")
    ]
    assert [(0, pytest.approx(12.5, abs=0.6)), (pytest.approx(12.5, abs=0.6), 20)] == [
        (start, end) for start, end, _ in spans(value)
    ]


def test_a_long_text_is_not_ended_in_the_middle(adapt: Adapt) -> None:
    """The package stops at 512 tokens unless it is told otherwise, and says nothing of it."""
    text = " ".join(f"word{number}" for number in range(300))
    (segment,) = adapt(NAME, [text]).heard(tone(300, 14), language="en")["segments"]

    assert text == segment["text"]


@pytest.mark.parametrize(
    "items",
    [
        [],
        ITEMS[:-1],
        [*ITEMS[:-1], ("stay", 4.0, 4.4)],
        [*ITEMS[:-1], ("wait", 4.0, 400)],
        [*ITEMS[:-1], ("wait", 4.0, None)],
        [*ITEMS[:-1], ("wait", 4.4, 4.0)],
    ],
)
def test_an_alignment_that_does_not_fit_is_doubted(adapt: Adapt, items: list[Any]) -> None:
    """The text stays, as long as its piece; the worker hears that its words could not be found."""
    value = adapt(NAME, [[TEXT, items]], aligner_dir="/aligner").heard(tone(300, 5), language="en")

    assert [(0, 5, TEXT)] == spans(value)
    assert ["The words from 0 s on could not be aligned with the audio."] == value["doubts"]


def test_again_goes_in_smaller_pieces_and_a_cancel_is_heard(adapt: Adapt) -> None:
    """The model is greedy: the same piece would give the same answer."""
    model = adapt(NAME, ["words"])
    model.heard(tone(300, 14), language="en")
    model.heard(tone(300, 14), language="en", again=True)
    with pytest.raises(Cancelled) as ended:
        model.run({"language": "en"}, {"audio": tone(300, 14)}, cancelled=cancelled())

    whole, *pieces = [call["seconds"] for call in model.calls("transcribe")]

    assert (14, True) == (whole, max(pieces) <= 7.5)
    assert not ended.value.lost
