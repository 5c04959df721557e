"""The image engine with its real weights: real PNGs, drawn here, of the sizes and things that are asked
for."""

import hashlib
import io
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from lab.quality.recordings import CACHE
from PIL import Image

from engines.runs import RecordedRun
from tenuto.features.image.png import read_png
from tenuto.features.models.manifest import shipped
from tenuto.host.registry import entry_of
from tenuto_engine import Result
from tenuto_pictograms import MODEL_ID, PictogramsEngine

pytestmark = pytest.mark.real_engine

ENTRY = entry_of(MODEL_ID)


@cache
def engine() -> PictogramsEngine:
    weights = {name: str(CACHE / name) for name in ENTRY.weights}
    return PictogramsEngine({"weights": weights, "model_revision": "r1"})


def made(prompt: str, **more: Any) -> Result:
    small = {"width": 256, "height": 256, "seed": 7, **more}
    return engine().run(RecordedRun({**ENTRY.defaults, **small, "prompt": prompt}))


def pixels(result: Result) -> npt.NDArray[np.int16]:
    """[h, w, 3]."""
    return np.asarray(Image.open(io.BytesIO(result.content)), np.int16)


def drawn(result: Result) -> list[tuple[str, int]]:
    return [(one["concept"], one["count"]) for one in result.metadata["drawn"]]


@pytest.mark.parametrize(("width", "height"), [(256, 256), (1024, 264), (256, 2048)])
def test_an_image_is_a_png_of_just_that_size_with_something_on_it(width: int, height: int) -> None:
    """Every size of the contract, with the least and the most guidance; what is drawn stands out (R145)."""
    result = made("a red car", width=width, height=height, guidance_scale=20.0 if width > height else 0.0)
    read = read_png(result.content)
    seen = pixels(result)
    stands_out = np.abs(seen - seen[0, 0]).max(-1) > 60

    assert ("image/png", width, height) == (result.media_type, read.width, read.height)
    assert stands_out.mean() > 0.03 * min(width, height) / max(width, height)


def test_the_same_seed_and_parameters_make_the_same_bytes() -> None:
    """Again and in another order; seed, steps and guidance each change them (R144)."""
    first = made("a cat and a dog")
    others = [made("a cat and a dog", **{name: value}) for name, value in _CHANGES.items()]
    again = made("a cat and a dog")

    assert first.content == again.content
    assert len({one.content for one in others} | {first.content}) == len(_CHANGES) + 1


_CHANGES = {"seed": 8, "num_inference_steps": 4, "guidance_scale": 3.0, "height": 264}


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("a kitten", [("cat", 1)]),
        ("一只小狗", [("dog", 1)]),
        ("りんご", [("red apple", 1)]),
        ("manzana", [("red apple", 1)]),
        ("سيارة", [("automobile", 1)]),
        ("three trees and a house", [("deciduous tree", 3), ("house", 1)]),
        ("两辆自行车", [("bicycle", 2)]),
    ],
)
def test_prompts_of_five_languages_are_understood(prompt: str, wanted: list[tuple[str, int]]) -> None:
    """What was drawn is told with the result (R138)."""
    assert wanted == drawn(made(prompt, num_inference_steps=2))


def test_what_is_not_known_or_too_long_is_said() -> None:
    unknown = made("an epistemological quandary", num_inference_steps=2).metadata["warnings"]
    guessed = made("a feline", num_inference_steps=2).metadata["warnings"]
    long = made("a cat " * 500, num_inference_steps=2).metadata["warnings"]

    assert "is not among the things that this model can draw; the nearest is drawn: " in unknown[0]
    assert guessed[0].startswith("'feline' is not a name that this model knows; drawn as: ")
    assert "the prompt was cut" in long[0]
    assert [] == made("a cat", num_inference_steps=2).metadata["warnings"]


def test_the_files_that_ship_are_those_of_the_manifest() -> None:
    """Our own weights lie in the tree, whole, with the hashes that are written down, 30 MB in all at most."""
    manifest = shipped()
    weight = manifest.weights["pictograms"]
    folder = manifest.folders["pictograms"] / "weights"
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}

    assert {path: file.sha256 for path, file in weight.files.items()} == hashes
    assert weight.size_bytes <= 30_000_000
