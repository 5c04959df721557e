"""A FLAC read as the service reads it: inspected for admission, decoded in a child for its job."""

import tempfile
from contextlib import closing

import numpy as np

from tenuto.kinds.recognition.recording import Decoded, Decoding
from tenuto.media.flac import FlacSummary, Inspection


def inspect(content: bytes, piece_bytes: int = 1 << 20) -> FlacSummary:
    """What admission knows of it."""
    inspection = Inspection()
    for at in range(0, len(content), piece_bytes):
        inspection.add(content[at : at + piece_bytes])
    return inspection.finish()


def decode(content: bytes, output: int, duration_ms: int | None = None) -> Decoded:
    """What the child decodes."""
    if duration_ms is None:
        duration_ms = inspect(content).duration_ms
    with closing(Decoding(output, duration_ms)) as decoding:
        for at in range(0, len(content), 1 << 20):
            decoding.feed(content[at : at + (1 << 20)])
        return decoding.finish()


def as_pcm(
    content: bytes, duration_ms: int | None = None
) -> tuple[Decoded, np.ndarray[tuple[int], np.dtype[np.int16]]]:
    """What the child decodes, and the samples that it writes."""
    with tempfile.TemporaryFile() as file:
        decoded = decode(content, file.fileno(), duration_ms)
        file.seek(0)
        return decoded, np.frombuffer(file.read(), "<i2")
