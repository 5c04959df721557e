"""A fake image engine, for tests and trials: a real PNG of coloured squares, derived from the request.

The same seed and parameters give the same bytes; any other prompt, seed or number gives another image. It
shows nothing of what the prompt says, and says so (`"fake": true`). Directives at the start of the prompt,
besides those of `fake_speech.py` that do not concern sound:

    [fake:garbage] [fake:cut] [fake:trailing]  no PNG; a truncated one; something after its end
    [fake:other_size] [fake:jpeg]              8 pixels too narrow; another media type
    [fake:warn]                                a warning, and what it read, along with the image
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import Any

from tenuto_engine import Result, Run

from .fake_speech import label, misbehave, read_directives

BAND = 8
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class FakeImage:
    """Bands of 8 × 8 pixels in colours drawn from a hash of the whole request."""

    model_id = "fake/image"

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = label(self.model_id)

    def run(self, run: Run) -> Result:
        directives, prompt = read_directives(str(run.parameters["prompt"]))
        misbehave(run, directives)
        width, height = int(run.parameters["width"]), int(run.parameters["height"])
        steps = int(run.parameters["num_inference_steps"])
        run.check_cancelled()
        content = _image(run.parameters, width - (BAND if "other_size" in directives else 0), height)
        run.progress("drawing", steps, steps, "steps")
        if "garbage" in directives:
            content = b"no PNG at all"
        elif "cut" in directives:
            content = content[:-20]
        elif "trailing" in directives:
            content += b"\0"
        metadata = label(self.model_id)
        if "warn" in directives:
            metadata |= {"warnings": ["the fake engine was told to warn"], "read": prompt}
        if "nan" in directives:
            metadata["score"] = float("nan")
        return Result("image/jpeg" if "jpeg" in directives else "image/png", content, metadata)


def _image(parameters: dict[str, Any], width: int, height: int) -> bytes:
    """The PNG; its pixels depend on all parameters, its size on `width` and `height`."""
    request = json.dumps(parameters, sort_keys=True).encode()
    rows = []
    for top in range(0, height, BAND):
        drawn = hashlib.shake_128(request + struct.pack(">I", top)).digest(3 * (width // BAND + 1))
        row = b"".join(drawn[at : at + 3] * BAND for at in range(0, len(drawn), 3))[: 3 * width]
        rows.append((b"\0" + row) * min(BAND, height - top))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(rows), 6)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
