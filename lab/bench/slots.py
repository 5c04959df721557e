"""How busy the slots are while the queue is full of jobs of 0.3 s."""

import time

from lab.bench.client import flood
from lab.bench.report import Row, above
from lab.bench.stage import Stage, clients, stage

from servers.postgres import PostgresServer
from tenuto.ids import encode

JOB_S = 0.3
TEXT = f"[fake:sleep={JOB_S}] Busy."
JOBS_A_SLOT = 24
SLOTS = (1, 8)
LEAST = 95.0


def measure(postgres: PostgresServer | None) -> list[Row]:
    """One slot, then eight."""
    rows = []
    for slots in SLOTS:
        with stage(postgres, TENUTO_SPEECH_SLOTS=str(slots)) as running:
            rows.append(_busy(running, slots))
    return rows


def _busy(running: Stage, slots: int) -> Row:
    busy, how = busy_percent(running, slots)
    return above(
        f"{running.name}: {slots} slot{'s' if slots > 1 else ''} with jobs of {JOB_S} s, engine busy",
        busy,
        LEAST,
        "%",
        f"fixed; {how}",
        digits=1,
    )


def busy_percent(running: Stage, slots: int) -> tuple[float, str]:
    """Only the stretch in which every slot had a next job to take counts; and how it came about."""
    jobs = slots * JOBS_A_SLOT
    since = f"attempt_{encode(time.time_ns() // 1_000_000 << 80)}"
    enough = jobs * 4 // 3
    flood(
        running.port, clients(running.keys, 8, TEXT), lambda answers: answers < enough, hosts=[running.host]
    )
    first, last = slots * 2, jobs
    running.wait_for(
        lambda: len(_ends(running, since)) >= last, timeout_s=JOBS_A_SLOT * JOB_S * (slots + 1) * 1.5
    )
    ends = _ends(running, since)
    seconds = (ends[last - 1] - ends[first - 1]) / 1000
    busy = (last - first) * JOB_S / (slots * seconds) * 100
    return busy, f"{last - first} jobs × {JOB_S} s over {slots} × {seconds:.1f} s, the queue never empty"


def _ends(running: Stage, since: str) -> list[int]:
    """When attempts ended that began after this id's moment."""
    rows = running.query(
        "select ended_at from attempt where id >= :since and outcome = 'succeeded' order by ended_at",
        since=since,
    )
    return [row["ended_at"] for row in rows]
