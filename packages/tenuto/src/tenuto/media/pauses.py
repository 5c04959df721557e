"""Long pauses of a finished WAV shortened: what the shared voice promises. Knows no voice.

A frame is quiet when each of its samples is below 130.5 of 32,768 (-48 dB). A run of quiet frames between two
loud ones that lasts 450 ms or longer loses frames in its middle until 350 ms are left; everything else stays
bit for bit, and a second pass finds nothing to do.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tenuto.media.wav import Wav, pcm16_wav

if TYPE_CHECKING:
    import numpy as np

QUIET = 130
"""The loudest quiet sample."""
LONG_MS = 450
KEPT_MS = 350


@dataclass(frozen=True, slots=True)
class Shortened:
    """A WAV file after the pass, and how much of it is gone."""

    content: bytes
    removed_frames: int
    removed_ms: int


def is_quiet(wav: Wav) -> bool:
    """Whether no sample of the file is loud; one without samples is quiet."""
    import numpy as np

    samples = np.frombuffer(wav.frames, dtype="<i2")
    return not samples.size or (int(samples.max()) <= QUIET and int(samples.min()) >= -QUIET)


def shorten_pauses(wav: Wav) -> Shortened | None:
    """The file without what is too long of its pauses; None when there is no such pause."""
    import numpy as np

    frames = np.frombuffer(wav.frames, dtype="<i2").reshape(-1, wav.channels)
    loud = np.flatnonzero(((frames > QUIET) | (frames < -QUIET)).any(axis=1))
    long_frames = -(-LONG_MS * wav.sample_rate // 1000)
    kept_frames = _rounded(KEPT_MS * wav.sample_rate, 1000)
    quiet = np.diff(loud) - 1
    long_runs = np.flatnonzero(quiet >= long_frames)
    if not long_runs.size:
        return None
    pieces = _kept(frames, loud[long_runs] + 1, quiet[long_runs], kept_frames)
    content = pcm16_wav(np.concatenate(pieces).tobytes(), wav.sample_rate, wav.channels)
    removed_frames = int((quiet[long_runs] - kept_frames).sum())
    return Shortened(content, removed_frames, _rounded(removed_frames * 1000, wav.sample_rate))


def _kept(frames: "np.ndarray[Any, Any]", starts: Any, lengths: Any, kept_frames: int) -> list[Any]:
    """The pieces between what goes: of each run half of the kept frames before the cut, half behind."""
    pieces, position = [], 0
    head = kept_frames // 2
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        pieces.append(frames[position : start + head])
        position = start + length - (kept_frames - head)
    pieces.append(frames[position:])
    return pieces


def _rounded(numerator: int, denominator: int) -> int:
    """The nearest whole number; a half goes up."""
    return (2 * numerator + denominator) // (2 * denominator)
