"""The format of messages, and what the far end is written in."""

import ast
import signal
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tenuto_engine
from servers.speed import HANG_S
from tenuto.host.registry import entry_of
from tenuto_engine import wire

FAR_END = Path(tenuto_engine.__file__ or "").parent
FAKES = Path(entry_of("fake/speech").folder or "")


@pytest.mark.parametrize("body", [b"", b"x", b"x" * wire.JOINED_BYTES, b"x" * 3_000_000])
def test_a_message_is_read_as_it_was_written(body: bytes) -> None:
    """Header and body survive, in pieces or joined."""
    ours, theirs = socket.socketpair()
    header = {"type": "echo", "text": "你好", "number": 1.5, "list": [None, True]}
    with ours, theirs, ThreadPoolExecutor() as pool:
        sending = pool.submit(theirs.sendall, b"".join(wire.encode(header, [body])))
        message = wire.read_message(ours)
        sending.result(HANG_S)

    assert (header, body) == message


@pytest.mark.parametrize("body", [b"x" * 10, b"x" * wire.JOINED_BYTES])
def test_signals_in_the_middle_of_a_message_lose_nothing_of_it(body: bytes) -> None:
    """A signal ends a call to the kernel early, wherever it falls; each one here brings the next piece."""
    ours, theirs = socket.socketpair()
    header = {"type": "echo", "text": "slow"}
    message = b"".join(wire.encode(header, [body]))
    size = len(message) // 8
    pieces = iter([message[start : start + size] for start in range(0, len(message), size)])
    before = signal.signal(signal.SIGUSR1, lambda *_: theirs.sendall(next(pieces, b"")))
    reader, is_read = threading.get_ident(), threading.Event()

    def interrupt() -> None:
        while not is_read.wait(0.002):
            signal.pthread_kill(reader, signal.SIGUSR1)

    with ours, theirs, ThreadPoolExecutor() as pool:
        interrupting = pool.submit(interrupt)
        try:
            read = wire.read_message(ours)
        finally:
            is_read.set()
            interrupting.result(HANG_S)
            signal.signal(signal.SIGUSR1, before)

    assert (header, body) == read


def test_the_end_of_the_stream_is_no_message() -> None:
    """Between two messages the other end may leave."""
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        assert wire.read_message(ours) is None


@pytest.mark.parametrize(
    "stream",
    [
        b"\0\0\0",
        struct.pack("!II", 0, 0),
        struct.pack("!II", wire.HEADER_LIMIT_BYTES + 1, 0),
        struct.pack("!II", 2, wire.BODY_LIMIT_BYTES + 1),
        struct.pack("!II", 2, 2) + b"{}",
        struct.pack("!II", 2, 0) + b"{}",
        struct.pack("!II", 8, 0) + b'{"type"}',
        struct.pack("!II", 23, 0) + b'{"type":"a","b":"\\ud800"}'[:23],
        struct.pack("!II", 20, 0) + b'{"type":"a","b":NaN}',
        struct.pack("!II", 22, 0) + b'{"type":"a","b":1e999}',
        struct.pack("!II", 16, 0) + b'{"type":"\xff\xfe\xfd"}  ',
    ],
)
def test_a_broken_stream_is_refused(stream: bytes) -> None:
    """Lengths out of bounds, half messages, and headers that are not plain JSON."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(stream)
    with ours, pytest.raises(wire.WireError):
        wire.read_message(ours)


@pytest.mark.parametrize(
    "header", [{"type": "a", "b": float("inf")}, {"type": "a", "b": "\ud800"}, {"type": "a" * (1 << 20)}]
)
def test_what_does_not_fit_is_not_sent(header: dict[str, Any]) -> None:
    """Numbers that are not finite, strings that are not Unicode, headers over the limit."""
    with pytest.raises(ValueError):
        wire.encode(header)


@pytest.mark.parametrize(
    "path",
    [*sorted(FAR_END.glob("*.py")), *sorted(FAKES.glob("fake_*.py"))],
    ids=lambda path: str(path.name),
)
def test_the_far_end_reads_under_python_3_9(path: Path) -> None:
    """An engine's interpreter may be older than ours; the first file must say so to those older still."""
    oldest = (3, 4) if path.name == "__main__.py" else (3, 9)

    assert ast.parse(path.read_text(), feature_version=oldest)
