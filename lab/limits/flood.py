"""A flood of clients that are slow in one way, as a process of its own: it tells how they ended, as JSON.

    python flood.py HOST PORT COUNT LIMIT_S KIND KEY… [PATH]

KIND is `head` (a header that never ends), `body` (a job's body, a byte at a time), `reader` (asks for PATH
and reads nothing; how it ends only the service can tell), `follower` (follows the events at PATH and reads
nothing but the head of the answer), `hasty` (asks for PATH again and again), `crowd`
(every other one asks without a key and stays, the others begin a body and stay; who is closed comes back,
from several addresses) or `heavy` (a chat of 4 MiB of tiny values each second). They come within two seconds,
and each is slow at moments of its own. It is a program, so that its own work takes no turns from the client
whose answers are timed.
"""

import errno
import json
import resource
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
CROWD_ADDRESSES = [f"127.0.0.{number}" for number in range(2, 10)]
CROWD_PAUSE_S = 0.004
"""Between two who come back."""
HEAVY_BYTES = 4 << 20
HEAVY_PAUSE_S = 1.0


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
    keys, path = (rest[:-1], rest[-1]) if kind in ("reader", "follower", "hasty") else (rest, "/v1/jobs")
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if kind in ("crowd", "heavy"):
        flood = crowd if kind == "crowd" else heavy
        print(json.dumps(flood((host, int(port)), int(count), float(limit_s), keys)), flush=True)
        return
    clients: list[Slow] = []
    chooser = selectors.DefaultSelector()
    for number in range(int(count)):
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        line.connect((host, int(port)))
        client = Slow(line, opening(kind, keys[number % len(keys)] if keys else "", path), time.monotonic())
        line.sendall(client.request)
        if kind == "follower":
            assert line.recv(4096).startswith(b"HTTP/1.1 200 ")
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
    if kind in ("reader", "follower"):
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
    if kind == "follower":
        head += "Accept: text/event-stream\r\n"
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


def crowd(place: tuple[str, int], count: int, limit_s: float, keys: list[str]) -> dict[str, object]:
    """As many connections as may be, kept open for as long as the service lets them."""
    chooser = selectors.DefaultSelector()
    came = 0
    absent = list(range(count))
    until = time.monotonic() + COME_S + limit_s
    has_come = False
    while time.monotonic() < until:
        if absent:
            come(chooser, place, absent.pop(), keys)
            came += 1
        if came == count and not has_come:
            has_come = True
            print("flooding", flush=True)
        due = time.monotonic() + (CROWD_PAUSE_S if has_come else COME_S / count)
        for ready, _ in chooser.select(timeout=max(0.0, due - time.monotonic())):
            absent += leave_or_stay(chooser, ready)
        time.sleep(max(0.0, due - time.monotonic()))
    return {"came": came, "there": count - len(absent)}


def come(chooser: selectors.BaseSelector, place: tuple[str, int], number: int, keys: list[str]) -> None:
    line = socket.socket()
    line.bind((CROWD_ADDRESSES[number % len(CROWD_ADDRESSES)], 0))
    line.setblocking(False)
    assert line.connect_ex(place) in (0, errno.EINPROGRESS)
    chooser.register(line, selectors.EVENT_WRITE, (number, keys[number // 2 % len(keys)]))


def leave_or_stay(chooser: selectors.BaseSelector, ready: selectors.SelectorKey) -> list[int]:
    """Asks once it is connected; gives the number of a client that was closed."""
    line, (number, key) = ready.fileobj, ready.data
    assert isinstance(line, socket.socket)
    try:
        if ready.events & selectors.EVENT_WRITE:
            line.send(
                opening("body", key, "/v1/jobs") if number % 2 else b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
            )
            chooser.modify(line, selectors.EVENT_READ, ready.data)
            return []
        if line.recv(4096):
            return []
    except OSError:
        pass
    chooser.unregister(line)
    line.close()
    return [number]


def heavy(place: tuple[str, int], count: int, limit_s: float, keys: list[str]) -> dict[str, object]:
    """A chat's body of tiny values from each connection in turn."""
    body = b"[" + b"{}," * (HEAVY_BYTES // 3) + b"1]"
    lines = [socket.create_connection(place) for _ in range(count)]
    answers: list[str] = []
    until = time.monotonic() + limit_s
    print("flooding", flush=True)
    while time.monotonic() < until:
        for number, line in enumerate(lines):
            head = opening("body", keys[number % len(keys)], "/v1/chat/completions").partition(
                b"Content-Length"
            )[0]
            line.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answers.append(line.recv(65536).split(b"\r\n")[0].decode())
            time.sleep(HEAVY_PAUSE_S / count)
    return {"answers": len(answers), "ends": sorted(set(answers))}


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
