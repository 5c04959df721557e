"""What a thousand open streams of events cost while nothing happens: heartbeats, and checks of their keys."""

import resource
import socket
import time
from contextlib import ExitStack

from bench.client import get
from bench.references import cpu_s
from bench.report import Row, below
from bench.stage import ACCOUNTS, Stage, make_keys, stage
from servers.postgres import PostgresServer

STREAMS = 1_000
ROOM = {"TENUTO_CONNECTIONS": "4000", "TENUTO_CONNECTIONS_PER_ADDRESS": "0"}
SETTLE_S = 5.0
IDLE_S = 65.0
"""At least three heartbeats of each stream."""


def measure(postgres: PostgresServer | None) -> list[Row]:
    """All processes of a service, before the streams are opened and while they are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * STREAMS)), hard))
    with stage(postgres, **ROOM) as running, ExitStack() as stack:
        # Of many accounts, because the requests in progress of each are limited.
        for first in range(ACCOUNTS, ACCOUNTS * 4, ACCOUNTS):
            running.keys += make_keys(running.database, first)
        keys = running.keys
        time.sleep(SETTLE_S)
        alone = _share(running, IDLE_S)
        for number in range(STREAMS):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", running.port), 30))
            request = get("/v1/events", keys[number % len(keys)])
            client.sendall(request.replace(b"\r\n", b"\r\nAccept: text/event-stream\r\n", 1))
            head = client.recv(4096)
            assert head.startswith(b"HTTP/1.1 200"), head
        time.sleep(SETTLE_S)
        share = _share(running, IDLE_S)
    row = below(
        f"{running.name}: the idle service with {STREAMS:,} open event streams, of one core",
        share,
        1,
        "%",
        f"fixed; all processes over {IDLE_S:.0f} s, {len(keys)} accounts; {alone:.2f} % before them",
    )
    return [row]


def _share(running: Stage, seconds: float) -> float:
    """Percent of a core."""
    before = sum(cpu_s(process.pid) for process in running.processes())
    time.sleep(seconds)
    return (sum(cpu_s(process.pid) for process in running.processes()) - before) / seconds * 100
