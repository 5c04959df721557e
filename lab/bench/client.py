"""A lean HTTP/1.1 client: requests are bytes made beforehand, an answer is cut by its length, no more.

Client and service share the machine's cores, so what the client takes is missing from the service. It knows
connections and answers, nothing of Tenuto but the headers that tell a replay.
"""

import itertools
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

LONGEST_ANSWER_BYTES = 64 * 1024
TIMEOUT_S = 30.0
HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its status, its head as it came, its body."""

    status: int
    head: bytes
    body: bytes

    @property
    def is_replay(self) -> bool:
        return b"\r\nidempotent-replayed: true\r\n" in self.head


@dataclass(slots=True)
class Tally:
    """The answers that a number of clients got, by kind, and how long each took."""

    seconds: float = 0.0
    new: int = 0
    replayed: int = 0
    other: Counter[int] = field(default_factory=Counter)
    took_s: list[float] = field(default_factory=list)

    @property
    def answers(self) -> int:
        return len(self.took_s)

    def count(self, answer: Answer, took_s: float) -> None:
        self.took_s.append(took_s)
        if answer.status >= 300:
            self.other[answer.status] += 1
        elif answer.is_replay:
            self.replayed += 1
        else:
            self.new += 1


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int, host: str = HERE) -> None:
        self.socket = socket.create_connection((host, port), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""

    def ask(self, request: bytes) -> Answer:
        """Send a request and wait for its answer."""
        self.socket.sendall(request)
        while (answer := self.receive()) is None:
            pass
        return answer

    def receive(self) -> Answer | None:
        """Read once; the answer when it is whole by then."""
        received = self.socket.recv(LONGEST_ANSWER_BYTES)
        if not received:
            raise ConnectionError("the service closed the connection")
        self._received = received = self._received + received if self._received else received
        end = received.find(b"\r\n\r\n") + 4
        if end < 4:
            return None
        at = received.find(b"content-length: ") + 16
        length = int(received[at : received.find(b"\r", at)])
        if len(received) < end + length:
            return None
        self._received = b""
        return Answer(int(received[9:12]), received[:end], received[end:])

    def close(self) -> None:
        self.socket.close()


def flood(
    port: int,
    scripts: Sequence[Iterator[bytes]],
    go_on: Callable[[int], bool],
    *,
    hosts: Sequence[str] = (HERE,),
) -> Tally:
    """One client for each script, spread over the hosts: it sends a request when the last was answered.

    `go_on` is asked, with the number of answers so far, before each request; when it declines, clients stop.
    """
    tally = Tally()
    poll = select.epoll()
    clients: dict[int, tuple[Connection, Iterator[bytes]]] = {}
    sent_at: dict[int, float] = {}
    began = time.perf_counter()
    for script, host in zip(scripts, itertools.cycle(hosts), strict=False):
        connection = Connection(port, host)
        number = connection.socket.fileno()
        clients[number] = connection, script
        poll.register(number, select.EPOLLIN)
        connection.socket.sendall(next(script))
        sent_at[number] = time.perf_counter()
    while sent_at:
        events = poll.poll(TIMEOUT_S)
        if not events:
            raise TimeoutError("the service does not answer")
        for number, _ in events:
            connection, script = clients[number]
            answer = connection.receive()
            if answer is None:
                continue
            now = time.perf_counter()
            tally.count(answer, now - sent_at.pop(number))
            if go_on(tally.answers):
                connection.socket.sendall(next(script))
                sent_at[number] = now
    tally.seconds = time.perf_counter() - began
    poll.close()
    for connection, _ in clients.values():
        connection.close()
    return tally


def for_seconds(seconds: float) -> Callable[[int], bool]:
    """A `go_on` that is true for this long."""
    until = time.perf_counter() + seconds
    return lambda answers: time.perf_counter() < until


def get(path: str, key: str) -> bytes:
    """A GET request."""
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
