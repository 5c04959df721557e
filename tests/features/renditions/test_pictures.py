"""Pictures in other forms: of the same size, transparency kept or made white, and never cut short."""

import io
from typing import BinaryIO, cast

import pytest
from PIL import Image

from tenuto.features.renditions.renditions import IMAGE_FORMS, NotRenderable, write_image

RED, GREY = (200, 40, 30), 90
SAMPLES = {
    "RGB": Image.new("RGB", (64, 40), RED),
    "RGBA": Image.new("RGBA", (64, 40), (*RED, 255)),
    "L": Image.new("L", (64, 40), GREY),
    "LA": Image.new("LA", (64, 40), (GREY, 255)),
}


def png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "png")
    return file.getvalue()


def written(name: str, content: bytes) -> Image.Image:
    sink = io.BytesIO()
    write_image(IMAGE_FORMS[name], io.BytesIO(content), sink)
    picture = Image.open(sink)
    assert name == (picture.format or "").lower()
    return picture


@pytest.mark.parametrize("mode", SAMPLES)
@pytest.mark.parametrize("name", IMAGE_FORMS)
def test_every_form_has_the_whole_picture(name: str, mode: str) -> None:
    """Of every sort of PNG that may be a result (`features.image.png`): its size and its colours."""
    picture = written(name, png(SAMPLES[mode]))

    assert (64, 40) == picture.size
    colour = RED if mode.startswith("RGB") else (GREY, GREY, GREY)
    assert colour == pytest.approx(picture.convert("RGB").getpixel((60, 35)), abs=6)


@pytest.mark.parametrize(("name", "expected"), [("jpeg", (255, 255, 255)), ("webp", 0), ("png", 0)])
def test_what_is_transparent(name: str, expected: object) -> None:
    picture = written(name, png(Image.new("RGBA", (16, 16), (*RED, 0))))

    pixel = picture.getpixel((8, 8))
    assert isinstance(pixel, tuple)
    assert expected == (pixel if name == "jpeg" else pixel[3])


@pytest.mark.parametrize("content", [b"", b"no picture", png(SAMPLES["RGB"])[:60], b"GIF89a" + bytes(40)])
def test_what_is_not_a_whole_png_is_refused(content: bytes) -> None:
    """Nothing is guessed, and no other reader of Pillow's is tried."""
    with pytest.raises(NotRenderable):
        write_image(IMAGE_FORMS["jpeg"], io.BytesIO(content), io.BytesIO())


class Breaking(io.BytesIO):
    """A file that cannot be read."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise ConnectionError("the store is gone")


def test_a_source_that_breaks_off_is_an_error() -> None:
    """What the store raises is raised, so that it is answered as the store's fault."""
    with pytest.raises(ConnectionError):
        write_image(IMAGE_FORMS["webp"], cast(BinaryIO, Breaking(png(SAMPLES["RGB"]))), io.BytesIO())
