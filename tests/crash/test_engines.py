"""Engines that hang, crash, are killed for want of memory or give nonsense: their jobs end, nobody else's."""

import resource
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from crash.conftest import MakeService
from servers import checker
from servers.processes import family, send, until
from servers.service import RunningService

LOST, TIMES = "engine_crashed", 3
MEMORY_MB, PAGE_BYTES = 96, resource.getpagesize()

ENDS = {
    "hang": (LOST, TIMES),
    "hang_gil": (LOST, TIMES),
    "crash": (LOST, TIMES),
    "exit": (LOST, TIMES),
    "raise": ("engine_failed", 1),
    "garbage": ("engine_failed", 1),
    "nan": ("engine_failed", 1),
    "bad_segment": ("engine_failed", 1),
}
"""What each directive of the fake engine ends with, and after how many attempts."""


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_an_engine_that_misbehaves_fails_its_job_alone(make_service: MakeService) -> None:
    """A hang is killed, a lost process is started again, three times at most; nonsense fails at once; each
    hold is voided, and the next job succeeds (P3, P14)."""
    running = make_service(TENUTO_ENGINE_SILENCE_S="1", TENUTO_HOST_GRACE_S="0.3")
    running.start()
    running.key = running.make_key(credit="1")
    ended = {
        directive: running.wait(running.submit(f"[fake:{directive}] Nonsense.", stream=True))
        for directive in ENDS
    }
    killed = running.submit(f"[fake:memory={MEMORY_MB}] [fake:slow_segments=10] As large as that.")
    for number in range(1, TIMES + 1):
        _kill_for_memory(running, killed, number)
    ended["memory"] = running.wait(killed)
    after = running.wait(running.submit("Still here."))
    database = checker.open_records(running)
    entries = checker.rows(database, "select type, count(*) as n from entry group by type order by type")
    database.close()

    assert {**ENDS, "memory": (LOST, TIMES)} == {
        directive: (operation["error"]["code"], operation["attempt"])
        for directive, operation in ended.items()
    }
    assert {("failed", "0.000000", "0.000000")} == {
        (operation["state"], operation["billing"]["held"], operation["billing"]["charged"])
        for operation in ended.values()
    }
    assert "succeeded" == after["state"]
    assert {"credit": 1, "hold": len(ended) + 1, "settle": 1, "void": len(ended)} == {
        row["type"]: row["n"] for row in entries
    }
    checker.check_audit(running)


def _kill_for_memory(running: RunningService, job_id: str, number: int) -> None:
    """As the kernel does it: SIGKILL of the process that holds the most, while it does."""

    def is_held() -> bool:
        host = family(running).host
        operation = running.wait(job_id, states=("running", "queued", "failed"))
        return host is not None and _held_mb(host) > MEMORY_MB and operation["attempt"] == number

    until(is_held, 60, f"attempt {number} holds its memory")
    host = family(running).host
    assert host is not None
    send(host, signal.SIGKILL)


def _held_mb(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES >> 20
    return 0
