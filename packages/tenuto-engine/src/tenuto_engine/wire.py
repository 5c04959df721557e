"""Messages between a worker and a host: a JSON header followed by raw bytes, on a stream socket.

    4 bytes  length of the header, big-endian        1 … 1 MiB
    4 bytes  length of the body                      0 … 512 MiB
    header   a JSON object in UTF-8 with a string "type"; numbers are finite
    body     raw bytes

Both ends use this module.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Sequence
from typing import Any

PROTOCOL = 1
HEADER_LIMIT_BYTES = 1 << 20
BODY_LIMIT_BYTES = 512 << 20
SOCKET_BUFFER_BYTES = 1 << 20
# A smaller body is appended to its header: another system call would cost more than the copy.
JOINED_BYTES = 1 << 16

_LENGTHS = struct.Struct("!II")

Message = tuple[dict[str, Any], bytes]


class WireError(ValueError):
    """The other end violated the format, or our own message exceeds its limits."""


def encode(header: dict[str, Any], body: Sequence[bytes] = ()) -> list[bytes]:
    """Return the pieces to send, in order. Raises WireError, TypeError or ValueError."""
    text = _ENCODER.encode(header).encode()
    size = sum(len(part) for part in body)
    if len(text) > HEADER_LIMIT_BYTES:
        raise WireError(f"a header of {len(text)} bytes; the limit is {HEADER_LIMIT_BYTES}")
    if size > BODY_LIMIT_BYTES:
        raise WireError(f"a body of {size} bytes; the limit is {BODY_LIMIT_BYTES}")
    if size < JOINED_BYTES:
        return [b"".join((_LENGTHS.pack(len(text), size), text, *body))]
    return [_LENGTHS.pack(len(text), size) + text, *(part for part in body if part)]


def read_message(connection: socket.socket) -> Message | None:
    """Read the next message; None at the end of the stream. Raises WireError."""
    lengths = _read(connection, _LENGTHS.size)
    if not lengths:
        return None
    header_size, body_size = _LENGTHS.unpack(_whole(lengths, _LENGTHS.size))
    if not 1 <= header_size <= HEADER_LIMIT_BYTES or body_size > BODY_LIMIT_BYTES:
        raise WireError(f"a message of {header_size} + {body_size} bytes")
    if body_size < JOINED_BYTES:
        both = _whole(_read(connection, header_size + body_size), header_size + body_size)
        return _header(both[:header_size]), both[header_size:]
    header = _whole(_read(connection, header_size), header_size)
    body = _whole(_read(connection, body_size), body_size)
    return _header(header), body


def _read(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes; fewer only at the end of the stream."""
    pieces: list[bytes] = []
    left = size
    # A signal may interrupt a call, in any thread.
    while left and (piece := connection.recv(left, socket.MSG_WAITALL)):
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _whole(part: bytes, size: int) -> bytes:
    if len(part) < size:
        raise WireError("the stream ended inside a message")
    return part


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = _DECODER.decode(text.decode())
        if b"\\u" in text:
            # An escaped lone surrogate cannot be encoded as UTF-8: it would fail far from here.
            _ENCODER.encode(header).encode()
    except (ValueError, RecursionError) as error:
        raise WireError(f"a header that is not JSON ({type(error).__name__})") from error
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise WireError("a header without a type")
    return header


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number out of range")
    return number


# Created once: json.dumps and json.loads would create them for every message.
_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
