"""Pictures with alpha on a backdrop of any size, and the PNG of what comes out. Knows no things and no
words."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COMPRESSION = 6


@dataclass(frozen=True)
class Place:
    """Where a picture goes: its middle and its side, in pixels of the canvas; its tilt in degrees."""

    across: float
    down: float
    side: float
    tilt: float = 0.0


def paste(canvas: Floats, pictures: list[Floats], place: Place) -> None:
    """Lays a picture onto the canvas [h, w, 3]. `pictures` are the same one in sizes that grow.

    The smallest that need not be enlarged is taken, halved while it is more than twice too large, and read
    between its pixels.
    """
    chosen = next((one for one in pictures if len(one) >= place.side), pictures[-1])
    while len(chosen) >= 2 * place.side and len(chosen) % 2 == 0:
        half = len(chosen) // 2
        chosen = chosen.reshape(half, 2, half, 2, 4).mean((1, 3))
    reach = place.side * 0.75
    top, bottom = max(0, int(place.down - reach)), min(canvas.shape[0], int(place.down + reach) + 1)
    left, right = max(0, int(place.across - reach)), min(canvas.shape[1], int(place.across + reach) + 1)
    if top >= bottom or left >= right:
        return
    rows = (np.arange(top, bottom, dtype=np.float32) + 0.5 - place.down)[:, None]
    columns = (np.arange(left, right, dtype=np.float32) + 0.5 - place.across)[None]
    sine, cosine = np.sin(np.radians(place.tilt)), np.cos(np.radians(place.tilt))
    scale = np.float32(len(chosen) / place.side)
    middle = np.float32(len(chosen) / 2 - 0.5)
    down = ((rows * cosine - columns * sine) * scale + middle).astype(np.float32)
    across = ((columns * cosine + rows * sine) * scale + middle).astype(np.float32)
    layer = _read(chosen, down, across)
    target = canvas[top:bottom, left:right]
    target *= 1 - layer[..., 3:]
    target += layer[..., :3]


def png(canvas: Floats) -> bytes:
    """The bytes of an RGB PNG; the same canvas gives the same bytes."""
    height, width = canvas.shape[:2]
    values = (canvas.clip(0, 1) * 255 + 0.5).astype(np.uint8)
    # Filter 2: a row as its difference to the one above, which flat art has little of.
    rows = np.zeros((height, 1 + width * 3), np.uint8)
    rows[:, 0] = 2
    flat = values.reshape(height, -1)
    rows[0, 1:] = flat[0]
    rows[1:, 1:] = flat[1:] - flat[:-1]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(rows.tobytes(), _COMPRESSION)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _read(picture: Floats, down: Floats, across: Floats) -> Floats:
    """Between four pixels each; nothing is beyond the edge."""
    side = len(picture)
    framed = np.zeros((side + 2, side + 2, 4), np.float32)
    framed[1:-1, 1:-1] = picture
    down, across = (down + 1).clip(0, side + 0.999), (across + 1).clip(0, side + 0.999)
    row, column = down.astype(np.int64), across.astype(np.int64)
    below, beside = (down - row)[..., None], (across - column)[..., None]
    upper = framed[row, column] * (1 - beside) + framed[row, column + 1] * beside
    lower = framed[row + 1, column] * (1 - beside) + framed[row + 1, column + 1] * beside
    found: Floats = upper * (1 - below) + lower * below
    return found


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
