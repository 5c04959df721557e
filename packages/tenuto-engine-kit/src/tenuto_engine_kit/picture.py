"""Pictures made fit to be a result: of the size that was asked for, as a plain PNG. Knows no model."""

from __future__ import annotations

import io
import warnings

from PIL import Image

MAX_PIXELS = 4096 * 4096
STEP = 16
FORMATS = ("PNG", "JPEG", "WEBP")


class PictureInvalid(ValueError):
    """The bytes are no picture as it should be; the message says why."""


def opened(content: bytes) -> Image.Image:
    """A picture out of bytes that are not trusted, decoded to the end. Raises PictureInvalid."""
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
        # Decoders of untrusted bytes raise what they like: SyntaxError, struct.error, OSError, EOFError.
        raise PictureInvalid("is no picture in a format that is known here") from error
    return picture.convert("RGB")


def fitted(picture: Image.Image, width: int, height: int) -> Image.Image:
    """The middle of a picture at this size: scaled until it just covers it, then cut.

    A model that draws in steps of 16 pixels gave a few too many: these are cut off, nothing is scaled.
    """
    surplus = picture.width - width, picture.height - height
    if min(surplus) < 0 or max(surplus) >= STEP:
        share = max(width / picture.width, height / picture.height)
        size = (max(width, round(picture.width * share)), max(height, round(picture.height * share)))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    return picture.crop((left, top, left + width, top + height))


def png(picture: Image.Image) -> bytes:
    """A PNG of 8 bits a channel without anything but the picture."""
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=6)
    return file.getvalue()
