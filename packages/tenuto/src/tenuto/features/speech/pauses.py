"""Long pauses in speech are shortened: those that a voice of the model makes between sentences."""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tenuto.features.decoding.wav import QUIET, Wav, pcm16_wav

if TYPE_CHECKING:
    import numpy as np

LONG_MS = 450
KEPT_MS = 350


class Shortened(Struct, frozen=True):
    """A WAV file with shorter pauses, and how much of it was removed."""

    content: bytes
    removed_frames: int
    removed_ms: int


def shorten_pauses(wav: Wav) -> Shortened | None:
    """The file with its long pauses shortened; None if it has none.

    A frame is quiet if each of its samples is below 130.5 of 32,768 (-48 dB). A run of quiet frames between
    two loud ones that lasts 450 ms or longer loses frames in its middle until 350 ms are left; everything
    else stays bit for bit, and a second pass changes nothing.
    """
    import numpy as np

    frames = np.frombuffer(wav.frames, dtype="<i2").reshape(-1, wav.channels)
    loud = np.flatnonzero(((frames > QUIET) | (frames < -QUIET)).any(axis=1))
    long_frames = -(-LONG_MS * wav.sample_rate // 1000)
    kept_frames = _rounded(KEPT_MS * wav.sample_rate, 1000)
    quiet = np.diff(loud) - 1
    long_runs = np.flatnonzero(quiet >= long_frames)
    if not long_runs.size:
        return None
    pieces = _remaining(frames, loud[long_runs] + 1, quiet[long_runs], kept_frames)
    content = pcm16_wav(np.concatenate(pieces).tobytes(), wav.sample_rate, wav.channels)
    removed_frames = int((quiet[long_runs] - kept_frames).sum())
    return Shortened(content, removed_frames, _rounded(removed_frames * 1000, wav.sample_rate))


def _remaining(frames: "np.ndarray[Any, Any]", starts: Any, lengths: Any, kept_frames: int) -> list[Any]:
    """The pieces that stay: of each run, half of `kept_frames` before the cut, half after it."""
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
