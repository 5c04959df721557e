"""What happens to a fleet at work, one blow after the other: what must be, and what was seen.

Every blow leaves the fleet whole. Leases are as long as by default.
"""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from cluster.fleet import Fleet, Node
from servers.processes import is_stopped, send, until
from servers.shots import Shots
from servers.speed import HANG_S

NOTICED_S = 40.0
"""From the loss of a worker to the next attempt of its job, with the default silence of 30 s."""
READY_S = 15.0
STORE_AWAY_S = 4.0
CUT_S = 12.0
WAIT_S = 90.0
LONG_JOB_S = 6


@dataclass(frozen=True)
class Outcome:
    """A line of the table."""

    what: str
    expected: str
    seen: str
    is_kept: bool


def kill_a_worker(fleet: Fleet, shots: Shots) -> Outcome:
    job_id, node = _running_job(fleet)
    node.kill()
    took_s = _next_attempt(fleet, job_id)
    node.begin()
    node.await_ready()
    state = fleet.operator.wait(job_id, timeout_s=WAIT_S)["state"]
    return Outcome(
        "a worker and its engines are killed in mid-run",
        f"the next attempt within {NOTICED_S:.0f} s, which succeeds",
        f"{took_s:.1f} s, {state}",
        took_s <= NOTICED_S and state == "succeeded",
    )


def cut_a_worker_off(fleet: Fleet, shots: Shots) -> Outcome:
    job_id, node = _running_job(fleet)
    node.machine.cut()
    took_s = _next_attempt(fleet, job_id)
    state = fleet.operator.wait(job_id, timeout_s=WAIT_S)["state"]
    node.machine.heal()
    late_s = until(lambda: "attempt.superseded" in node.said(), WAIT_S, "it sees that it is late")
    return Outcome(
        "a worker's link is cut in mid-run, and healed",
        f"the next attempt within {NOTICED_S:.0f} s; the first one's result is refused when it comes",
        f"{took_s:.1f} s, {state}; refused {late_s:.1f} s after the link was back",
        took_s <= NOTICED_S and state == "succeeded",
    )


def lose_a_machine_in_a_transaction(fleet: Fleet, shots: Shots) -> Outcome:
    shots.arm("claim.before_commit", "1:stop")
    job_id = fleet.operator.submit("[fake:sleep=0.5] Claimed by a machine that is lost.")
    pid = shots.fired("claim.before_commit", WAIT_S)
    assert pid is not None, "nobody claimed"
    until(lambda: is_stopped(pid), HANG_S, "it stands still, holding its locks")
    node = next(node for node in fleet.workers if node.pid == pid)
    node.machine.cut()
    node.kill()
    began = time.monotonic()
    state = fleet.operator.wait(job_id, timeout_s=WAIT_S)["state"]
    took_s = time.monotonic() - began
    node.machine.heal()
    node.begin()
    node.await_ready()
    return Outcome(
        "a machine is lost between a claim and its commit, holding locks",
        f"the job is done within {NOTICED_S:.0f} s",
        f"{took_s:.1f} s, {state}",
        took_s <= NOTICED_S and state == "succeeded",
    )


def kill_an_api(fleet: Fleet, shots: Shots) -> Outcome:
    killed, other = fleet.apis[1], fleet.apis[0]
    killed.kill()
    answer = other.ask_there("/readyz")
    began = time.monotonic()
    killed.begin()
    killed.await_ready()
    took_s = time.monotonic() - began
    return Outcome(
        "an API is killed, and started again",
        f"the other one answers; ready within {READY_S:.0f} s",
        f"the other one said {answer.status}; {took_s:.1f} s",
        answer.status == 200 and took_s <= READY_S,
    )


def cut_an_api_off(fleet: Fleet, shots: Shots) -> Outcome:
    node, limit_s = fleet.apis[1], fleet.network.cut_seen_s
    node.machine.cut()
    began = time.monotonic()
    first = node.ask_there("/readyz")
    other = fleet.apis[0].ask_there("/readyz")
    time.sleep(max(0.0, CUT_S - (time.monotonic() - began)))
    node.machine.heal()
    back_s = until(lambda: node.ask_there("/readyz").status == 200, WAIT_S, "it serves again")
    return Outcome(
        "an API's link to the database is cut, and healed",
        f"503 within {limit_s:.0f} s, the other one serves; again ready within {READY_S:.0f} s",
        f"{first.status} after {first.took_s:.1f} s, the other one {other.status}; {back_s:.1f} s",
        (first.status, other.status) == (503, 200) and first.took_s <= limit_s and back_s <= READY_S,
    )


def kill_the_database(fleet: Fleet, shots: Shots) -> Outcome:
    fleet.kill_database()
    away = [node.ask_there("/readyz").status for node in fleet.apis]
    fleet.postgres.start()
    took_s = until(lambda: all(n.ask_there("/readyz").status == 200 for n in fleet.apis), WAIT_S, "all serve")
    return Outcome(
        "every process of the database is killed, and it is started again",
        f"503 meanwhile; all ready within {READY_S:.0f} s",
        f"{', '.join(map(str, away))}; {took_s:.1f} s",
        set(away) == {503} and took_s <= READY_S,
    )


def kill_the_store(fleet: Fleet, shots: Shots) -> Outcome:
    assert fleet.store is not None
    fleet.store.kill()
    job_id = fleet.operator.submit("Made while the store of bytes is away.")
    time.sleep(STORE_AWAY_S)
    early = fleet.rows("select state from job where id = :id", id=job_id)[0]["state"]
    fleet.store.start()
    state = fleet.operator.wait(job_id, timeout_s=WAIT_S)["state"]
    return Outcome(
        f"the store of bytes is killed, and started after {STORE_AWAY_S:.0f} s",
        "accepted meanwhile, succeeded only when its bytes are there",
        f"{early} meanwhile, {state} afterwards",
        early != "succeeded" and state == "succeeded",
    )


Blow = Callable[[Fleet, Shots], Outcome]
BLOWS: tuple[Blow, ...] = (
    kill_an_api,
    kill_a_worker,
    kill_the_database,
    kill_the_store,
    cut_a_worker_off,
    cut_an_api_off,
    lose_a_machine_in_a_transaction,
)


def _running_job(fleet: Fleet) -> tuple[str, Node]:
    """A job that runs, and the machine on which it does."""
    job_id = fleet.operator.submit(f"[fake:sleep={LONG_JOB_S}] In mid-run.")
    fleet.operator.wait(job_id, states=("running",), timeout_s=WAIT_S)
    (row,) = fleet.rows("select worker_id from attempt where job_id = :id order by number", id=job_id)
    return job_id, fleet.node_of(row["worker_id"])


def _next_attempt(fleet: Fleet, job_id: str) -> float:
    """Seconds until somebody else has the job."""
    return until(
        lambda: len(fleet.rows("select id from attempt where job_id = :id", id=job_id)) > 1,
        WAIT_S,
        "another attempt",
        look_s=0.05,
    )


def stop_everything(fleet: Fleet) -> Outcome:
    """SIGTERM to every process at once, at the end."""
    for node in fleet.nodes:
        send(node.pid, signal.SIGTERM)
    codes = [node.await_end() for node in fleet.nodes]
    return Outcome(
        "SIGTERM to every process", "exit code 0 of each", ", ".join(map(str, codes)), not any(codes)
    )
