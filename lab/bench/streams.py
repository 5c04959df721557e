"""What a thousand open streams of events cost while nothing happens: their heartbeats.

Two services run side by side, one of them without streams, so whatever else the machine does meets both.
"""

import resource
import socket
import time
from contextlib import ExitStack

from lab.bench.client import get
from lab.bench.references import cpu_s
from lab.bench.report import Row, below
from lab.bench.stage import ACCOUNTS, Stage, make_keys, stage

from servers.postgres import PostgresServer

STREAMS = 1_000
ROOM = {"TENUTO_CONNECTIONS": "4000", "TENUTO_CONNECTIONS_PER_ADDRESS": "0"}
SETTLE_S = 5.0
IDLE_S = 60.0
"""Three heartbeats of each stream."""


def measure(postgres: PostgresServer | None) -> list[Row]:
    """All processes of both services over the same minute."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * STREAMS)), hard))
    with stage(postgres, **ROOM) as running, stage(postgres, **ROOM) as beside, ExitStack() as stack:
        # Of many accounts, because the requests in progress of each are limited.
        for first in range(ACCOUNTS, ACCOUNTS * 4, ACCOUNTS):
            running.keys += make_keys(running.database, first)
        for number in range(STREAMS):
            _open(running, running.keys[number % len(running.keys)], stack)
        time.sleep(SETTLE_S)
        before_s, before_beside_s = _used_s(running), _used_s(beside)
        time.sleep(IDLE_S)
        used_s, beside_s = _used_s(running) - before_s, _used_s(beside) - before_beside_s
    reason = (
        f"fixed; of one core, all processes over {IDLE_S:.0f} s: {used_s / IDLE_S:.2%} beside "
        f"{beside_s / IDLE_S:.2%} of an idle service; {len(running.keys)} accounts"
    )
    measure = f"{running.name}: {STREAMS:,} open event streams without events"
    return [below(measure, (used_s - beside_s) / IDLE_S * 100, 1, "%", reason)]


def _open(running: Stage, key: str, stack: ExitStack) -> None:
    client = stack.enter_context(socket.create_connection(("127.0.0.1", running.port), 30))
    client.sendall(get("/v1/events", key).replace(b"\r\n", b"\r\nAccept: text/event-stream\r\n", 1))
    head = client.recv(4096)
    assert head.startswith(b"HTTP/1.1 200"), head


def _used_s(running: Stage) -> float:
    return sum(cpu_s(process.pid) for process in running.processes())
