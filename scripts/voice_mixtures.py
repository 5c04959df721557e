"""Speech in many voices between and beyond the model's own, for fitting: one file for each sample.

    python -m scripts.voice_mixtures FOLDER [--first 0] [--count 700]

Sample N depends on N alone: an interrupted run continues where it stopped, and two machines make the same.
The first samples are the model's own voices, each in both languages; the others are random weighted sums of a
few of them. In every other one the halves of the style, timbre and prosody, are mixed apart from each other.
A file NNNN.npz holds `weights_timbre` and `weights_prosody` (one weight for each voice, in the order of their
names, sum 1), `text` (an index of TEXTS) and `audio` (float16, 24 kHz, silence at the ends cut).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tenuto.features.models.cache import default_cache
from tenuto_kokoro import audio
from tenuto_kokoro.languages import Languages
from tenuto_kokoro.styles import PROSODY, read_style
from tenuto_kokoro.synthesis import Synthesis

Weights = npt.NDArray[np.float64]

TEXTS = (
    ("en", "The morning train was late again, so we walked along the river."),
    ("en", "Please put the yellow box behind the door before you leave."),
    ("en", "Nobody thought that such a small garden could feed them all."),
    ("en", "What would you do if the weather changed on Thursday?"),
    ("zh", "昨天晚上我们在河边走了很久，还看见了月亮。"),
    ("zh", "请把黄色的箱子放在门后面，谢谢你的帮助。"),
    ("zh", "这个小花园里种着许多蔬菜，够大家吃一年。"),
    ("zh", "如果星期四下雨，你们打算做什么呢？"),
)
MOST_VOICES = 5
BEYOND_SHARE, BEYOND = 0.4, (1.2, 2.0)
"""So many of the mixtures lie beyond the voices: the weights' distance from equal ones, times a factor."""


def voice_names(voices: Path) -> list[str]:
    """The model's own voices, in the order of the weights."""
    return sorted(path.stem for path in voices.glob("*.bin"))


def weights_of(number: int, count: int) -> tuple[Weights, Weights, int]:
    """What sample `number` is made of: weights of the timbre, of the prosody, and the text's index."""
    half = len(TEXTS) // 2
    if number < 2 * count:
        single = np.eye(count)[number // 2]
        return single, single, number // 2 % half + half * (number % 2)
    rng = np.random.default_rng(number)
    timbre = _mixture(rng, count)
    return timbre, _mixture(rng, count) if number % 2 else timbre, int(rng.integers(len(TEXTS)))


def _mixture(rng: np.random.Generator, count: int) -> Weights:
    some = int(rng.integers(1, MOST_VOICES + 1))
    shares = rng.dirichlet(np.ones(some))
    weights = np.zeros(count)
    weights[rng.choice(count, some, replace=False)] = shares
    if rng.random() < BEYOND_SHARE:
        weights = 1 / count + (weights - 1 / count) * rng.uniform(*BEYOND)
    return weights


class Speaker:
    """The model, its voices and the texts as sounds."""

    def __init__(self, cache: Path, threads: int) -> None:
        languages = Languages(cache / "text2tashkeel")
        self._synthesis = Synthesis(cache / "kokoro-v1.0-int8.onnx", cache / "kokoro-vocabulary", threads)
        self._texts = [
            self._synthesis.known("".join(unit.phonemes for unit in languages.read(text, lang, True)))
            for lang, text in TEXTS
        ]
        voices = cache / "kokoro-voices"
        self.names = voice_names(voices)
        self.voices = np.stack([read_style(voices, name) for name in self.names])

    def speak(self, timbre: Weights, prosody: Weights, text: int) -> audio.Samples:
        """The text in that mixture of voices."""
        style = np.tensordot(timbre, self.voices, axes=1).astype(np.float32)
        style[..., PROSODY] = np.tensordot(prosody, self.voices[..., PROSODY], axes=1)
        return audio.finished(self._synthesis.speak(self._texts[text], style, 1.0))


def main() -> None:
    """Make the samples that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=700)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    speaker = Speaker(default_cache(), arguments.threads)
    for number in range(arguments.first, arguments.first + arguments.count):
        place = arguments.folder / f"{number:04}.npz"
        if place.exists():
            continue
        timbre, prosody, text = weights_of(number, len(speaker.names))
        sample: dict[str, Any] = {
            "weights_timbre": timbre,
            "weights_prosody": prosody,
            "text": text,
            "audio": speaker.speak(timbre, prosody, text).astype(np.float16),
        }
        partial = place.with_suffix(".part")
        with partial.open("wb") as output:
            np.savez(output, **sample)
        partial.replace(place)


if __name__ == "__main__":
    main()
