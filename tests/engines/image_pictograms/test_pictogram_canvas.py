"""The image engine's geometry, colours and PNG, on pictures made here; nothing of a model is needed."""

import io

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from tenuto.features.image.png import read_png
from tenuto_pictograms.canvas import Place, png
from tenuto_pictograms.layout import placed
from tenuto_pictograms.palette import SRGB, recoloured, to_oklab
from tenuto_pictograms.prompt import Reader

Floats = npt.NDArray[np.float32]
READER = Reader()


def disc(side: int, colour: tuple[float, float, float]) -> Floats:
    across, down = np.meshgrid(np.arange(side), np.arange(side))
    inside = (np.hypot(across - side / 2 + 0.5, down - side / 2 + 0.5) < side * 0.45).astype(np.float32)
    return np.stack([*(inside * np.float32(part) for part in colour), inside], -1)


def scene_of(prompt: str, width: int, height: int) -> dict[int, list[Place]]:
    """Where the things of a prompt stand."""
    found: dict[int, list[Place]] = {}
    for one in placed(READER.read(prompt), width, height, np.random.default_rng(1)):
        found.setdefault(one.thing, []).append(one.place)
    return found


@pytest.mark.parametrize(("width", "height"), [(256, 256), (2048, 256), (264, 1000)])
def test_a_canvas_becomes_a_png_of_its_pixels(width: int, height: int) -> None:
    """Our own strict reader takes it, and another one finds the very pixels (R145)."""
    canvas = np.random.default_rng(1).random((height, width, 3)).astype(np.float32)
    content = png(canvas)
    read = read_png(content)
    seen = np.asarray(Image.open(io.BytesIO(content)))

    assert (width, height) == (read.width, read.height)
    assert np.array_equal(seen, (canvas * 255 + 0.5).astype(np.uint8))


@pytest.mark.parametrize("colour", sorted(SRGB))
def test_a_thing_gets_the_colour_and_keeps_its_shading(colour: str) -> None:
    picture = disc(64, (0.8, 0.2, 0.2))
    picture[:32, :, :3] *= 1.2
    picture[30:34, 20:44, :3] = 0.05
    found = recoloured(picture, colour)
    body = to_oklab(found[40:50, 24:40, :3]).reshape(-1, 3).mean(0)
    wanted = to_oklab(np.array([[SRGB[colour]]], np.float32) / np.float32(255))[0, 0]

    assert np.array_equal(picture[..., 3], found[..., 3])
    assert np.allclose(wanted[1:], body[1:], atol=0.05)
    assert to_oklab(found[20, 32, :3])[0] >= to_oklab(found[45, 32, :3])[0]
    assert found[32, 32, :3].max() < 0.2 or colour == "black"


@pytest.mark.parametrize(
    ("prompt", "axis", "sign"),
    [
        ("a cat to the left of a dog", 0, -1),
        ("a cat to the right of a dog", 0, 1),
        ("a cat above a dog", 1, -1),
        ("a cat on a dog", 1, -1),
        ("a cat under a dog", 1, 1),
        ("猫在狗的左边", 0, -1),
        ("猫下面有一只狗", 1, 1),
    ],
)
@pytest.mark.parametrize(("width", "height"), [(512, 512), (1024, 256), (256, 1024)])
def test_things_stand_as_the_prompt_says(prompt: str, axis: int, sign: int, width: int, height: int) -> None:
    scene = READER.read(prompt)
    first = 0 if scene.things[0].phrase in ("cat", "猫") else 1
    found = scene_of(prompt, width, height)
    cat, dog = found[first][0], found[1 - first][0]
    middles = ((cat.across, dog.across), (cat.down, dog.down))[axis]
    wanted = sign if not (prompt.startswith("猫下面")) else -1

    assert wanted == np.sign(middles[0] - middles[1])


@pytest.mark.parametrize("count", range(1, 13))
@pytest.mark.parametrize(("width", "height"), [(512, 512), (2048, 256), (256, 1024)])
def test_copies_are_counted_inside_and_apart(count: int, width: int, height: int) -> None:
    places = scene_of(f"{count} apples" if count > 1 else "apple", width, height)[0]
    least = min(place.side for place in places)
    apart = [
        max(abs(one.across - two.across), abs(one.down - two.down)) - (one.side + two.side) / 2
        for number, one in enumerate(places)
        for two in places[:number]
    ]

    assert count == len(places)
    assert all(place.side / 2 <= place.across <= width - place.side / 2 for place in places)
    assert all(place.side / 2 <= place.down <= height - place.side / 2 for place in places)
    assert all(gap >= 0 for gap in apart)
    assert least >= 0.4 * np.sqrt(width * height / count) or max(width, height) >= 4 * min(width, height)
