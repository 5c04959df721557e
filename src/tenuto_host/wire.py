"""Messages between a worker and a host: a JSON header with raw bytes behind it, on a stream socket.

    4 bytes  length of the header, big-endian        1 … 1 MiB
    4 bytes  length of the body                      0 … 512 MiB
    header   a JSON object in UTF-8 with a string "type"; numbers are finite
    body     as it is

Both ends use this module. It does not know which messages there are.
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
# A smaller body is copied behind its header: a call to the kernel costs more than the copy.
JOINED_BYTES = 1 << 16

_LENGTHS = struct.Struct("!II")

Message = tuple[dict[str, Any], bytes]


class WireError(ValueError):
    """The other end broke the format, or a message of ours does not fit into it."""


def encode(header: dict[str, Any], body: Sequence[bytes] = ()) -> list[bytes]:
    """Give the pieces to send, in order. Raises WireError, TypeError or ValueError."""
    text = _ENCODER.encode(header).encode()
    size = sum(len(part) for part in body)
    if len(text) > HEADER_LIMIT_BYTES:
        raise WireError(f"a header of {len(text)} bytes; the limit is {HEADER_LIMIT_BYTES}")
    if size > BODY_LIMIT_BYTES:
        raise WireError(f"a body of {size} bytes; the limit is {BODY_LIMIT_BYTES}")
    if size < JOINED_BYTES:
        return [b"".join((_LENGTHS.pack(len(text), size), text, *body))]
    return [_LENGTHS.pack(len(text), size) + text, *(part for part in body if part)]


class MessageReader:
    """Reads messages from a connection. With a receive timeout on it (SO_RCVTIMEO) a look inside a message
    ends, also while it dribbles in, and what has come of the message is kept for the next look.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._begin()

    def read(self) -> Message | None:
        """Read on until a message is whole; None when it is not, for now.

        Raises EOFError at the end of the stream, WireError for what is no message.
        """
        while len(self._parts) < len(self._sizes):
            part = self._read_part(self._sizes[len(self._parts)])
            if part is None:
                return None
            self._parts.append(part)
            if len(self._parts) == 1:
                self._sizes += _sizes(part)
        text, body = self._parts[1], self._parts[2] if len(self._parts) > 2 else b""
        header_size = _LENGTHS.unpack(self._parts[0])[0]
        self._begin()
        return _header(text[:header_size]), body or text[header_size:]

    def _begin(self) -> None:
        # What a message consists of, and what of it has come.
        self._sizes = [_LENGTHS.size]
        self._parts: list[bytes] = []
        self._pieces: list[bytes] = []

    def _read_part(self, size: int) -> bytes | None:
        left = size - sum(len(piece) for piece in self._pieces)
        if left:
            try:
                piece = self._connection.recv(left, socket.MSG_WAITALL)
            except BlockingIOError:
                return None
            if not piece and (self._parts or self._pieces):
                raise WireError("the stream ended inside a message")
            if not piece:
                raise EOFError
            self._pieces.append(piece)
            if len(piece) < left:
                # The timeout ended in it, a signal came, or the stream is over: the next look says which.
                return None
        part = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        return part


def read_message(connection: socket.socket) -> Message | None:
    """Read the next message; None at the end of the stream. Raises WireError."""
    reader = MessageReader(connection)
    try:
        while (message := reader.read()) is None:
            pass
        return message
    except EOFError:
        return None


def _sizes(lengths: bytes) -> list[int]:
    """What follows the lengths: a short body comes with its header."""
    header_size, body_size = _LENGTHS.unpack(lengths)
    if not 1 <= header_size <= HEADER_LIMIT_BYTES or body_size > BODY_LIMIT_BYTES:
        raise WireError(f"a message of {header_size} + {body_size} bytes")
    return [header_size + body_size] if body_size < JOINED_BYTES else [header_size, body_size]


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = _DECODER.decode(text.decode())
        if b"\\u" in text:
            # An escaped lone surrogate is a string that no UTF-8 can hold: it would fail far from here.
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


# Made once: json.dumps and json.loads would make them anew for every message.
_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
