"""What makes a transcript doubtful, on sound that is made here: 440 Hz is somebody talking, 0 is nobody."""

from array import array
from math import pi, sin
from typing import Any

import pytest

from tenuto.features.recognition.recognise_chunk import check_transcript
from tenuto.features.recognition.recording import RATE

_SECOND = array("h", (int(8000 * sin(2 * pi * 440 * i / RATE)) for i in range(RATE))).tobytes()
_SENTENCE = "This sentence is {} seconds away from its first word."


def talk(*spans: tuple[int, int], length_s: int, floor: bytes = b"\0\0") -> bytes:
    seconds = [floor * RATE] * length_s
    for start, end in spans:
        seconds[start:end] = [_SECOND] * (end - start)
    return b"".join(seconds)


def words(*spans: tuple[float, float]) -> list[dict[str, Any]]:
    return [{"start": start, "end": end, "text": _SENTENCE.format(start)} for start, end in spans]


TALK = talk((1, 20), (25, 45), length_s=60)
WHOLE = words((1, 9), (9, 20), (25, 36), (36, 45))


def test_a_transcript_of_all_that_is_said_is_not_doubted() -> None:
    music = {"start": 25, "end": 45, "text": ""}

    assert [] == check_transcript(WHOLE, TALK).sentences
    assert [] == check_transcript(words((1.4, 9), (9.2, 19.6), (25.4, 44.6)), TALK).sentences
    assert [] == check_transcript([*words((1, 20)), music], TALK).sentences
    assert [] == check_transcript([], talk(length_s=60)).sentences
    assert [] == check_transcript([], b"").sentences


def test_a_room_that_hums_is_not_talking() -> None:
    """A steady noise is the floor over which speech stands; it needs no words."""
    hum = array("h", (int(300 * sin(2 * pi * 50 * i / RATE)) for i in range(RATE))).tobytes()
    sound = hum * 50 + _SECOND * 4 + hum * 6

    assert [] == check_transcript(words((50, 54)), sound).sentences
    assert [] == check_transcript([], hum * 60).sentences


@pytest.mark.parametrize(
    ("segments", "sentence"),
    [
        (WHOLE[:2], "Nothing was written after 20 s, although there is sound."),
        (words((1, 20), (38, 45)), None),
        (words((1, 9), (42, 45)), "27 s of audio have no transcript."),
        ([], "39 s of audio have no transcript."),
        ([WHOLE[2], WHOLE[0], WHOLE[1], WHOLE[3]], "The times go backwards at 1 s."),
        ([{**one, "text": "and then we went away"} for one in WHOLE], "The text repeats itself at 36 s."),
        ([{**WHOLE[0], "text": "no, no, no, no, no, no, no, no, no"}, *WHOLE[1:]], "repeats itself at 1 s"),
        ([{**WHOLE[0], "text": "是的，是的，" * 5}, *WHOLE[1:]], "repeats itself at 1 s"),
        ([*WHOLE[:3], {**WHOLE[3], "text": "word " * 2 + "other words. " * 20}], "repeats itself at 36 s"),
        (words((1, 45)), None),
        ([{"start": 1, "end": 45, "text": "Well."}], "From 1 to 45 s there are hardly any words."),
        ([{**WHOLE[0], "text": "".join(map(str, range(400)))}, *WHOLE[1:]], "more words than could be said"),
    ],
)
def test_what_a_model_leaves_out_or_makes_up_is_doubted(
    segments: list[dict[str, Any]], sentence: str | None
) -> None:
    found = check_transcript(segments, TALK).sentences

    assert (sentence is None) == (found == [])
    assert sentence is None or [one for one in found if sentence in one] == found


def test_in_a_short_part_less_is_enough_to_doubt() -> None:
    """Three of eight seconds behind the last word; a breath there is none."""
    sound = talk((0, 5), (8, 11), length_s=12)

    assert ["Nothing was written after 5 s, although there is sound."] == check_transcript(
        words((0, 5)), sound
    ).sentences
    assert [] == check_transcript(words((0, 5), (8, 10)), sound).sentences


def test_of_two_transcripts_the_one_with_less_doubt_is_the_better() -> None:
    """Fewer doubts first, then less sound without words."""
    some, more = check_transcript(WHOLE[:2], TALK), check_transcript(WHOLE[:1], TALK)

    assert check_transcript(WHOLE, TALK).weight < some.weight < more.weight
