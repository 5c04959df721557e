"""Turns a model's picture into a result: the requested size, as a plain PNG."""

from __future__ import annotations

import io
import warnings

from PIL import Image

MAX_PIXELS = 4096 * 4096
STEP = 16
FORMATS = ("PNG", "JPEG", "WEBP")


class PictureInvalid(ValueError):
    """The bytes are not a usable picture; the message says why."""


def opened(content: bytes) -> Image.Image:
    """Decode a picture completely from untrusted bytes. Raises PictureInvalid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(io.BytesIO(content), formats=FORMATS)
            if picture.width * picture.height > MAX_PIXELS:
                raise PictureInvalid(f"has {picture.width} × {picture.height} pixels")
            picture.load()
    except PictureInvalid:
        raise
    except Exception as error:
        # Decoders raise anything on bad bytes: SyntaxError, struct.error, OSError, EOFError.
        raise PictureInvalid("is not a picture in a known format") from error
    return picture.convert("RGB")


def fitted(picture: Image.Image, width: int, height: int) -> Image.Image:
    """A picture at this size: scaled until it just covers the size, then cropped around its middle.

    If a model draws in steps of 16 pixels, the few extra ones are cropped without scaling.
    """
    surplus = picture.width - width, picture.height - height
    if min(surplus) < 0 or max(surplus) >= STEP:
        share = max(width / picture.width, height / picture.height)
        size = (max(width, round(picture.width * share)), max(height, round(picture.height * share)))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    return picture.crop((left, top, left + width, top + height))


def png(picture: Image.Image) -> bytes:
    """A PNG with 8 bits per channel and no metadata."""
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=6)
    return file.getvalue()
