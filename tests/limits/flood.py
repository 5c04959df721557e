"""A flood of clients that are slow in one way, as a process of its own: it tells how they ended, as JSON.

    python flood.py HOST PORT COUNT LIMIT_S KIND KEY… [PATH]

KIND is `head` (a header that never ends), `body` (a job's body, a byte at a time), `reader` (asks for PATH
and reads nothing; how it ends only the service can tell) or `hasty` (asks for PATH again and again). They
come within two seconds, and each is slow at moments of its own. It is a program, so that its own work takes
no turns from the client whose answers are timed.
"""

import json
import selectors
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

COME_S = 2.0
DRIP_S = 1.0
TICKS = 20
SMALL_BUFFER = 4096


@dataclass
class Slow:
    """One client, when it began to be slow, and how it ended: after how long, with which answer."""

    line: socket.socket
    request: bytes
    began: float
    ended_after_s: float | None = None
    answer: bytes = b""
    answers: int = 0


def main() -> None:
    host, port, count, limit_s, kind, *rest = sys.argv[1:]
    keys, path = (rest[:-1], rest[-1]) if kind in ("reader", "hasty") else (rest, "/v1/jobs")
    clients: list[Slow] = []
    chooser = selectors.DefaultSelector()
    for number in range(int(count)):
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        line.connect((host, int(port)))
        client = Slow(line, opening(kind, keys[number % len(keys)] if keys else "", path), time.monotonic())
        line.sendall(client.request)
        line.setblocking(False)
        clients.append(client)
        chooser.register(line, selectors.EVENT_READ, client)
        if kind == "hasty":
            # Or the first ones would wait for the last, and then all would ask in one moment.
            ask(chooser, time.monotonic() + COME_S / int(count))
        else:
            time.sleep(COME_S / int(count))
    print("flooding", flush=True)
    until = time.monotonic() + float(limit_s)
    if kind == "reader":
        time.sleep(float(limit_s))
    elif kind == "hasty":
        ask(chooser, until)
    else:
        drip(clients, chooser, until)
    print(json.dumps(told(clients)), flush=True)


def opening(kind: str, key: str, path: str) -> bytes:
    if kind == "head":
        return b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX-Slow: "
    method = "POST" if kind == "body" else "GET"
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
    if kind == "body":
        head += "Content-Type: application/json\r\nIdempotency-Key: k\r\nContent-Length: 100000\r\n"
    return head.encode() + b"\r\n"


def drip(clients: list[Slow], chooser: selectors.BaseSelector, until: float) -> None:
    """A byte of each once a second, until all have ended or the time is over."""
    tick = 0
    while time.monotonic() < until and any(client.ended_after_s is None for client in clients):
        tick += 1
        for client in clients[tick % TICKS :: TICKS]:
            if client.ended_after_s is None:
                with suppress(OSError):
                    client.line.send(b"x")
        due = time.monotonic() + DRIP_S / TICKS
        while (left := due - time.monotonic()) > 0:
            for ready, _ in chooser.select(timeout=left):
                end(ready.data, chooser)


def end(client: Slow, chooser: selectors.BaseSelector) -> None:
    with suppress(OSError):
        client.answer += client.line.recv(4096)
    client.ended_after_s = time.monotonic() - client.began
    chooser.unregister(client.line)
    client.line.close()


def ask(chooser: selectors.BaseSelector, until: float) -> None:
    """Every answer is followed by the next request at once."""
    while (left := until - time.monotonic()) > 0:
        for ready, _ in chooser.select(timeout=left):
            client: Slow = ready.data
            client.answer += client.line.recv(4096)
            if client.answer.endswith(b"}"):
                client.answers += 1
                client.answer = b""
                client.line.send(client.request)


def told(clients: list[Slow]) -> dict[str, object]:
    ended = [client for client in clients if client.ended_after_s is not None]
    return {
        "ended": len(ended),
        "longest_s": max((client.ended_after_s or 0.0 for client in ended), default=0.0),
        "ends": sorted({client.answer.split(b"\r\n")[0].decode() for client in ended}),
        "answers": sum(client.answers for client in clients),
    }


if __name__ == "__main__":
    main()
