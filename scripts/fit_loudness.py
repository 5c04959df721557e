"""Measures how loud each built-in voice speaks each language, and writes the gains that make it even.

    python -m scripts.fit_loudness FOLDER [--texts 4]

Texts are those of lab/quality/sentences.tsv. FOLDER keeps the speech as the model makes it, so that an
interrupted run continues. A voice speaks its own language in so many texts, and each other one in one: the
texts of a voice differ by less than 1 LU. Writes gains.json beside the engine: the same speech gives the same
numbers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import numpy as np

from tenuto.features.models.cache import default_cache
from tenuto.features.voices.builtin import built_in_voices
from tenuto_kokoro import audio
from tenuto_kokoro.languages import Languages
from tenuto_kokoro.styles import ORIGINAL_VOICES, read_style
from tenuto_kokoro.synthesis import Synthesis

from .loudness import loudness

ROOT = Path(__file__).parents[1]
TARGET_LUFS = -16.0
ROUNDS = 4
"""The peaks that are turned down take a little away, and the gain makes up for it."""
OF_A_TEXT_ABROAD = 4
"""The number of the text that a voice speaks of a language that is not its own."""
LANGUAGES = {"z": "zh", "a": "en", "b": "en", "j": "ja", "e": "es"}
"""The language of a voice, by the first letter of its name; Arabic has none of its own, and the voices that
speak it may be of a language that nobody speaks here."""


def texts() -> dict[str, list[str]]:
    """By language."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "lab/quality/sentences.tsv").read_text("utf-8").splitlines():
        lang, text, _ = line.split("\t")
        found.setdefault(lang, []).append(text)
    return found


def measured(count: int) -> Iterator[tuple[str, str, int]]:
    """Language, voice and number of every text that is spoken."""
    spoken_with = [voice for voice in built_in_voices() if voice.kind != "emotion"]
    named = {str(voice.profile["style"]) for voice in spoken_with if "style" in voice.profile}
    for voice in [*ORIGINAL_VOICES.values(), *sorted(named - {*ORIGINAL_VOICES.values()})]:
        for lang, original in ORIGINAL_VOICES.items():
            is_own = voice == original or lang == LANGUAGES.get(voice[0])
            for number in range(count) if is_own else (OF_A_TEXT_ABROAD,):
                yield lang, voice, number


def synthesise(folder: Path, count: int) -> None:
    """What is not in the folder yet."""
    cache, written = default_cache(), texts()
    languages = Languages(cache / "text2tashkeel")
    synthesis = Synthesis(cache / "kokoro-v1.0-int8.onnx", cache / "kokoro-vocabulary", 1)
    for lang, voice, number in measured(count):
        file = folder / f"{lang}.{voice}.{number}.npy"
        if not file.exists():
            units = languages.read(written[lang][number], lang, True)
            phonemes = synthesis.known("".join(unit.phonemes for unit in units))
            spoken = synthesis.speak(phonemes, read_style(cache / "kokoro-voices", voice), 1.0)
            # So quiet that no peak is turned down.
            np.save(file, audio.finished(spoken, 0.1) * 10)


def fitted(spoken: list[audio.Samples]) -> float:
    """The gain with which these texts are as loud as they are to be, on average."""
    gain = 1.0
    for _ in range(ROUNDS):
        made = [audio.limited(samples * np.float32(gain)) for samples in spoken]
        gain *= 10 ** ((TARGET_LUFS - mean(loudness(samples, audio.SAMPLE_RATE) for samples in made)) / 20)
    return round(gain, 2)


def main() -> None:
    """Speak, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, default=4)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    synthesise(arguments.folder, arguments.texts)
    gains: dict[str, dict[str, float]] = {lang: {} for lang in ORIGINAL_VOICES}
    for lang, voice in dict.fromkeys((lang, voice) for lang, voice, _ in measured(arguments.texts)):
        files = sorted(arguments.folder.glob(f"{lang}.{voice}.*.npy"))
        gains[lang][voice] = fitted([np.load(file) for file in files])
    target = ROOT / "engines/kokoro/src/tenuto_kokoro/gains.json"
    target.write_text(json.dumps(gains, indent=1, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
