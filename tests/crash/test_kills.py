"""A job survives: clients go on while processes and the database's server are killed under them."""

import hashlib
import os
import random
import signal
import time
from collections import Counter

import pytest

from crash.conftest import MakeService
from servers import checker
from servers.clients import Client
from servers.postgres import PostgresServer
from servers.processes import Supervisor, family, send
from servers.service import RunningService

CREDIT = 100
CLIENTS = 4
FINISH_S = 180.0
LONGEST_PAUSE_S = 1.6
SETTLE_S = 0.4

PLAN = {
    "sqlite": {"api": 1, "worker": 1, "host": 1, "everything": 2},
    "postgresql": {"api": 1, "worker": 1, "host": 1, "postgres": 1, "everything+postgres": 1},
}
"""What is killed how often, in an order that is drawn; the campaign (`make faults`) kills far more often."""

TEXTS = [
    *(f"Sentence number {number}." for number in range(8)),
    *(f"[fake:sleep=0.1] A thought of {number} beats." for number in range(4)),
    *(f"[fake:slow_segments=0.02] {'Several segments, one by one. ' * number}End." for number in (2, 4)),
]


def test_every_accepted_job_survives_kills_at_any_moment(
    request: pytest.FixtureRequest, make_service: MakeService, dialect: str
) -> None:
    """SIGKILL of API, worker, host, all of them, and PostgreSQL, at drawn moments under load.

    Every 202 ends succeeded with one artifact, the bytes of an undisturbed run, and one charge; one key is
    one job; no state goes back; nothing but 503 is answered in between (P1, P2, P3, P5, P6, P8).
    """
    seed = int(os.environ.get("CRASH_SEED") or random.randrange(1 << 32))
    print(f"CRASH_SEED={seed}")
    draw = random.Random(seed)
    server = request.getfixturevalue("mortal_postgres") if dialect == "postgresql" else None
    service = make_service(TENUTO_SPEECH_SLOTS="2")
    service.start()
    keys = [service.make_key(f"account {n % 2}", credit=str(CREDIT)) for n in range(CLIENTS)]
    expected = _undisturbed(service, keys[0])
    clients = [Client(service, key, TEXTS, draw.getrandbits(32)) for key in keys]
    supervisor = Supervisor(service)
    for client in clients:
        client.start()

    kills = _kill(service, server, draw, PLAN[dialect])
    finishing = time.monotonic()
    for client in clients:
        client.finish()
    for client in clients:
        client.join(max(0.0, finishing + FINISH_S - time.monotonic()))
    code = supervisor.stop()

    works = [work for client in clients for work in client.works]
    assert [] == [fault for client in clients for fault in client.faults]
    assert [] == [work for client in clients for work in client.unfinished()]
    assert [] == [work for work in works if work.sha256 != expected[work.text]]
    assert code == 0
    assert PLAN[dialect] == kills
    checker.check_everything(service, jobs=len(works) + len(TEXTS), credit_micros=CREDIT * 1_000_000)


def _undisturbed(service: RunningService, key: str) -> dict[str, str]:
    """The SHA-256 of each text's result when nothing is killed."""
    service.key = key
    made = {text: service.wait(service.submit(text))["artifacts"][0] for text in TEXTS}
    with service.client() as http:
        for artifact in made.values():
            content = http.get(f"/v1/artifacts/{artifact['id']}/content").content
            assert artifact["sha256"] == hashlib.sha256(content).hexdigest()
    return {text: artifact["sha256"] for text, artifact in made.items()}


def _kill(
    service: RunningService, server: PostgresServer | None, draw: random.Random, plan: dict[str, int]
) -> Counter[str]:
    """Carry out the plan; a process that is not there just now is waited for, so that each kill counts.

    A drawn moment more is waited then: the start of a process is not the only time to kill it.
    """
    order = [kind for kind, count in plan.items() for _ in range(count)]
    draw.shuffle(order)
    kills: Counter[str] = Counter()
    for kind in order:
        time.sleep(draw.uniform(0.0, LONGEST_PAUSE_S))
        while not _kill_one(service, server, draw, kind):
            time.sleep(draw.uniform(0.0, SETTLE_S))
        kills[kind] += 1
    return kills


def _kill_one(service: RunningService, server: PostgresServer | None, draw: random.Random, kind: str) -> bool:
    there = family(service)
    if kind.startswith("everything"):
        killed = there.living()
        if len(killed) < 2:
            return False
        for each in killed:
            send(each, signal.SIGKILL)
    elif kind != "postgres":
        pid = {"api": there.api, "worker": there.worker, "host": there.host}[kind]
        if pid is None or not send(pid, signal.SIGKILL):
            return False
    if kind.endswith("postgres"):
        assert server is not None
        server.kill()
        time.sleep(draw.uniform(0.0, 0.5))
        server.start()
    return True
