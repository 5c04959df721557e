"""Kokoro in ONNX Runtime: optimised once, and the same samples again."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.speech_kokoro.test_kokoro_engine import WEIGHTS, SpokenRun
from servers.cores import ENGINE_THREADS
from tenuto.features.models.cache import default_cache
from tenuto_kokoro import KokoroEngine, products
from tenuto_kokoro.model import OPTIMISED, RUNTIME

CACHE = default_cache()
MODEL = CACHE / "kokoro-v1.0-int8.onnx"
SENTENCE = "The bridge had to be repaired."

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]


def engine(path: Path = MODEL, **options: Any) -> KokoroEngine:
    weights = {name: str(CACHE / name) for name in WEIGHTS} | {MODEL.name: str(path)}
    return KokoroEngine({"weights": weights, "threads": ENGINE_THREADS, **options})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / MODEL.name).symlink_to(MODEL)
    return tmp_path / MODEL.name


def test_runs_at_once_give_what_they_give_alone() -> None:
    """To the bit, also while the front ends, the voices and the encoder are loaded by either of them."""
    shared, alone = engine(concurrency=2), engine()
    sentences = [("en", "Hold it."), ("es", "Hola, y adiós."), ("en", "Hold the note."), ("zh", "再见。")]
    runs = [SpokenRun(lang=lang, text=text, duration_factor=1.2) for lang, text in sentences]

    with ThreadPoolExecutor(shared.concurrency) as pool:
        together = [result.content for result in pool.map(shared.run, runs)]

    assert [alone.run(SpokenRun(**run.parameters)).content for run in runs] == together


def test_the_model_is_optimised_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load after that does not rewrite it and gives the same samples; a damaged file is made again."""

    def sound() -> bytes:
        fresh = engine(path)
        assert RUNTIME == fresh.info["runtime"]
        return fresh.run(SpokenRun(lang="en", text=SENTENCE)).content

    first = sound()
    for file in (path.parent / OPTIMISED).iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    damaged = sound()
    monkeypatch.setattr(products, "fast", None)

    assert first == damaged == sound()


def test_a_folder_that_cannot_be_written_costs_only_time(path: Path) -> None:
    folder = path.parent / OPTIMISED
    folder.write_bytes(b"")

    assert (
        f"{RUNTIME}: optimised at each load, for {folder} cannot be written: File exists"
        == engine(path).info["runtime"]
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([65, 63], True),
        ([65, 64], False),
        ([-64, -64], True),
        ([-65, -64], False),
        ([127, -127], True),
        ([1], False),
    ],
)
def test_weights_whose_products_could_overflow_are_left_alone(rows: list[int], expected: bool) -> None:
    """Of two neighbours, each times 255, the sum must fit into 16 bits."""
    assert expected is products.is_exact(np.array([rows], np.int8).T)
