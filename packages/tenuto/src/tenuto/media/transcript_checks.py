"""Why a transcript may not be all that was said: sound without words, words in circles, times out of order.

Pure. A model that writes freely can stop in the middle of a part, or repeat itself to its end, and say
nothing of it. What is found is a doubt, not a fault: music has no words, a choir may sing one line ten times.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Segment = dict[str, Any]

RATE = 16_000
FRAME_S = 0.02
AUDIBLE = 104
"""The root mean square of quieter frames is below -50 dB: nobody speaks in them."""
ABOVE_FLOOR = 3.0
"""So many times louder than the quietest tenth a frame is more than the room's own noise."""
MARGIN_S = 0.5
"""A word may begin so long before its segment, and end so long after it."""
UNHEARD_S, UNHEARD_LEAST_S, UNHEARD_SHARE = 15.0, 2.0, 0.5
"""So much sound without words is worth a doubt; or so little, where it is more than this share of all."""
ENDING_S, ENDING_SHARE = 5.0, 0.25
"""So much sound behind the last word is worth one; or less, where it is this share of all."""
BACKWARDS_S = 1.0
CIRCLES = 8
"""So many times one after the other nobody says the same few words."""
REPEATED_SEGMENTS, REPEATED_LETTERS = 4, 12
SPARSE_S, SPARSE_RATE = 30.0, 0.5
"""A longer segment with fewer letters a second hides that most of it was not written."""
DENSE_S, DENSE_RATE = 3.0, 45.0
"""More letters a second than this nobody says."""

_CIRCLE = re.compile(rf"(.{{1,30}}?)\1{{{CIRCLES - 1},}}", re.DOTALL)
_LONGEST_SEARCHED = 20_000
"""Letters; ten minutes have half as many."""


@dataclass(frozen=True, slots=True)
class TranscriptDoubts:
    """Sentences for whoever reads the transcript; of two transcripts the one with less is the better."""

    sentences: list[str] = field(default_factory=list)
    unheard_s: float = 0.0
    """Seconds of sound that no segment covers."""

    @property
    def weight(self) -> tuple[int, float]:
        return len(self.sentences), self.unheard_s


def check_transcript(segments: Sequence[Segment], audio: bytes) -> TranscriptDoubts:
    """What is doubtful about a part's transcript, in the order in which its engine gave the segments.

    `audio`: the part's sound, PCM16, mono, 16 kHz. Segments without text cover their sound, too.
    """
    unheard_s, sentences = _coverage(segments, audio)
    return TranscriptDoubts(
        [*sentences, *_order(segments), *_circles(segments), *_density(segments)], unheard_s
    )


def _coverage(segments: Sequence[Segment], audio: bytes) -> tuple[float, list[str]]:
    sounding = _sounding(audio)
    if not sounding.any():
        return 0.0, []
    open_ = sounding.copy()
    for one in segments:
        first, last = (one["start"] - MARGIN_S) / FRAME_S, (one["end"] + MARGIN_S) / FRAME_S
        open_[max(0, int(first)) : max(0, int(last) + 1)] = False
    unheard_s, heard_s = float(open_.sum() * FRAME_S), float(sounding.sum() * FRAME_S)
    ends = max((one["end"] for one in segments), default=0.0)
    behind_s = float(open_[int(ends / FRAME_S) :].sum() * FRAME_S)
    if segments and behind_s >= min(ENDING_S, max(UNHEARD_LEAST_S, ENDING_SHARE * heard_s)):
        return unheard_s, [f"Nothing was written after {ends:.0f} s, although there is sound."]
    if unheard_s >= UNHEARD_S or (unheard_s >= UNHEARD_LEAST_S and unheard_s > UNHEARD_SHARE * heard_s):
        return unheard_s, [f"{unheard_s:.0f} s of audio have no transcript."]
    return unheard_s, []


def _sounding(audio: bytes) -> "np.ndarray[Any, Any]":
    """Which of the frames of 20 ms are more than silence and the room's own noise."""
    import numpy as np

    frame = int(RATE * FRAME_S)
    samples = np.frombuffer(audio, "<i2", count=len(audio) // 2 // frame * frame).reshape(-1, frame)
    # One row after the other would take eight bytes a sample at once.
    levels = np.sqrt(np.einsum("ij,ij->i", samples, samples, dtype=np.float64, casting="safe") / frame)
    if not levels.size:
        return np.zeros(0, bool)
    return np.asarray(levels > max(AUDIBLE, ABOVE_FLOOR * float(np.quantile(levels, 0.1))))


def _order(segments: Sequence[Segment]) -> list[str]:
    latest = 0.0
    for one in segments:
        if one["start"] < latest - BACKWARDS_S:
            return [f"The times go backwards at {one['start']:.0f} s."]
        latest = max(latest, one["start"])
    return []


def _circles(segments: Sequence[Segment]) -> list[str]:
    """Words, or whole segments, again and again."""
    texts = [_letters(one["text"]) for one in segments]
    same = 1
    for number in range(1, len(texts)):
        same = same + 1 if texts[number] == texts[number - 1] else 1
        if same >= REPEATED_SEGMENTS and len(texts[number]) >= REPEATED_LETTERS:
            return [_repeats(segments[number])]
    for text, one in zip(texts, segments, strict=True):
        if _CIRCLE.search(text[:_LONGEST_SEARCHED]):
            return [_repeats(one)]
    return ["The text repeats itself."] if _CIRCLE.search("".join(texts)[:_LONGEST_SEARCHED]) else []


def _repeats(segment: Segment) -> str:
    return f"The text repeats itself at {segment['start']:.0f} s."


def _density(segments: Sequence[Segment]) -> list[str]:
    for one in segments:
        length_s, letters = one["end"] - one["start"], len(_letters(one["text"]))
        if letters and length_s > SPARSE_S and letters < SPARSE_RATE * length_s:
            return [f"From {one['start']:.0f} to {one['end']:.0f} s there are hardly any words."]
        if letters > DENSE_RATE * max(length_s, DENSE_S):
            return [f"At {one['start']:.0f} s there are more words than could be said."]
    return []


def _letters(text: str) -> str:
    return "".join(sign for sign in text.casefold() if sign.isalnum())
