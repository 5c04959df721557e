"""Fits the matrix by which the speech engine imitates recorded voices, from samples of voice_mixtures.py.

    python -m scripts.fit_voices FOLDER

Each sample's speech is encoded as a recording would be. What a text does to an embedding is taken off, so
that the voice remains. A ridge regression leads from embeddings to the principal components of the voices'
styles, of timbre and prosody apart; the smallest weights of the model's voices that have these components are
what the engine mixes. Writes likeness.npz beside the engine: the same samples give the same numbers. The
one that ships was fitted on the 286 samples 0 to 168 and 583 to 699; `make quality` measures it on people.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soxr

from tenuto.features.models.cache import default_cache
from tenuto_engine_kit.speaker_embedding import SAMPLE_RATE, SpeakerEncoder
from tenuto_kokoro import audio, likeness
from tenuto_kokoro.styles import PROSODY, TIMBRE, read_style

from .voice_mixtures import TEXTS, voice_names

Numbers = npt.NDArray[np.float64]

COMPONENTS = {"timbre": 30, "prosody": 20}
RIDGE = 0.3
BEYOND = 1.5
"""A ridge regression draws everybody towards the mean voice; its steps are made so much longer again. Both
were chosen on recordings of twelve people, none of whom is among those of lab/quality."""
USUAL_ROWS = slice(20, 200)
"""The rows of a style that texts of usual length ask for."""


def read_samples(folder: Path, encoder: SpeakerEncoder) -> tuple[Numbers, Numbers, Numbers]:
    """Of every sample: weights of the timbre, of the prosody, and the embedding less what its text does."""
    timbre, prosody, texts, embeddings = [], [], [], []
    for place in sorted(folder.glob("*.npz")):
        with np.load(place) as sample:
            timbre.append(sample["weights_timbre"])
            prosody.append(sample["weights_prosody"])
            texts.append(int(sample["text"]))
            spoken = sample["audio"].astype(np.float32)
        embeddings.append(encoder.embed(soxr.resample(spoken, audio.SAMPLE_RATE, SAMPLE_RATE)))
    found, of_text = np.array(embeddings, np.float64), np.array(texts)
    means = np.array([found[of_text == text].mean(axis=0) for text in range(len(TEXTS))])
    return np.array(timbre), np.array(prosody), found - means[of_text] + means.mean(axis=0)


def regression(embeddings: Numbers, weights: Numbers, half: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Mean weights and the matrix from embeddings to weights, of one half of the style, [voices, 128]."""
    spread = half - half.mean(axis=0)
    _, sizes, directions = np.linalg.svd(spread, full_matrices=False)
    axes = directions[:count].T / (sizes[:count] / np.sqrt(len(half)))
    components = weights @ spread @ axes
    centred = embeddings - embeddings.mean(axis=0)
    ridge = centred.T @ centred + RIDGE * np.eye(centred.shape[1])
    matrix = np.linalg.solve(ridge, centred.T @ (components - components.mean(axis=0)))
    to_weights = np.linalg.pinv(spread @ axes)
    return 1 / len(half) + components.mean(axis=0) @ to_weights, BEYOND * matrix @ to_weights


def main() -> None:
    """Fit both halves and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    cache = default_cache()
    timbre, prosody, embeddings = read_samples(
        parser.parse_args().folder, SpeakerEncoder(cache / "resemblyzer.pt")
    )
    names = voice_names(cache / "kokoro-voices")
    rows = np.stack([read_style(cache / "kokoro-voices", name)[USUAL_ROWS, 0].mean(axis=0) for name in names])
    rows = rows.astype(np.float64)
    sound = regression(embeddings, timbre, rows[:, TIMBRE], COMPONENTS["timbre"])
    melody = regression(embeddings, prosody, rows[:, PROSODY], COMPONENTS["prosody"])
    np.savez_compressed(
        likeness.FITTED,
        names=np.array(names),
        embedding=embeddings.mean(axis=0).astype(np.float32),
        weights=np.concatenate([sound[0], melody[0]]).astype(np.float32),
        matrix=np.concatenate([sound[1], melody[1]], axis=1).astype(np.float16),
    )
    print(f"{len(embeddings)} samples; {likeness.FITTED.stat().st_size} bytes")


if __name__ == "__main__":
    main()
