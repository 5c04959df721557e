"""Wall clocks jump while the service runs: nothing is stolen, fails early or waits for ever (P20).

Real processes whose clock is moved under them (see `servers/shim`), and leases that are short.
"""

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from servers import checker
from servers import service as servers
from servers.service import RunningService
from servers.speed import HANG_S

MakeService = Callable[..., RunningService]
SHIM = Path(servers.__file__).with_name("shim")
HOUR_S = 3600
JUMPS_S = {
    "an hour ahead": HOUR_S,
    "two hours back": -2 * HOUR_S,
    "1970": None,
    "fifteen days ahead": 15 * 24 * HOUR_S,
}
SILENCE_S = 1.0


class Clock:
    """The wall clock of a service's processes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.move(0)

    @property
    def variables(self) -> dict[str, str]:
        return {"WALL_CLOCK_FILE": str(self._file), "PYTHONPATH": str(SHIM)}

    def move(self, seconds: float | None) -> None:
        """So far from the truth; None: to the beginning of 1970."""
        moved = self._file.with_suffix(".new")
        moved.write_text(str(3.0 - time.time() if seconds is None else seconds))
        moved.rename(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "clock")


@pytest.fixture
def running(make_service: MakeService, clock: Clock, fresh_url: str | None) -> RunningService:
    """A service with leases of a second, so that a stolen one would show."""
    quick = {"TENUTO_HEARTBEAT_S": "0.2", "TENUTO_SILENCE_S": str(SILENCE_S), "TENUTO_SPEECH_SLOTS": "2"}
    service = make_service(None, fresh_url, **quick, **clock.variables)
    service.start()
    service.key = service.make_key(credit="1")
    return service


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_jumps_steal_no_attempt_and_fail_no_job(running: RunningService, clock: Clock) -> None:
    """Jobs that run and jobs that wait while the clock jumps and jumps back: one attempt each, all succeed.

    They are accepted, read and listed at any of these times; until a worker's next beat is seen after a jump
    they may be told to come again (P1, P8, P20).
    """
    shown = []
    jobs = [running.submit("[fake:sleep=3] Through all of it.")]
    running.wait(jobs[0], states=("running",))
    with running.client() as http:
        for seconds in JUMPS_S.values():
            jobs += [_submitted(http) for _ in range(2)]
            clock.move(seconds)
            jobs.append(_submitted(http))
            time.sleep(0.3)
            shown.append(_asked(http, jobs[-1]))
            clock.move(0)
            time.sleep(0.2)
        ended = [running.wait(job_id) for job_id in jobs]

    assert [[200] * 6] * len(JUMPS_S) == shown
    assert [("succeeded", 1)] * len(jobs) == [(job["state"], job["attempt"]) for job in ended]
    checker.check_everything(running, jobs=len(jobs), credit_micros=1_000_000)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_service_may_start_in_1970(running: RunningService, clock: Clock) -> None:
    """A machine that has no time yet accepts jobs and runs them, also after a time server has told it."""
    clock.move(None)
    assert 0 == running.stop()
    running.start()
    early = running.submit("[fake:sleep=1] Early.")
    waiting = [running.submit("[fake:sleep=0.2] Waiting.") for _ in range(3)]
    clock.move(0)
    states = [running.wait(job_id)["state"] for job_id in (early, *waiting)]

    assert ["succeeded"] * 4 == states
    checker.check_everything(running, jobs=4, credit_micros=1_000_000)


def _submitted(http: httpx2.Client) -> str:
    body = {"model": "fake/speech", "parameters": {"text": "[fake:sleep=0.3] At that time."}}
    key = {"Idempotency-Key": str(uuid.uuid4())}
    latest = time.monotonic() + HANG_S
    while (answer := http.post("/v1/jobs", json=body, headers=key)).status_code == 503:
        assert time.monotonic() < latest, answer.text
        time.sleep(0.05)
    job_id: str = answer.json()["id"]
    return job_id


def _asked(http: httpx2.Client, job_id: str) -> list[int]:
    paths = (
        "/v1/jobs",
        f"/v1/jobs/{job_id}",
        f"/v1/jobs/{job_id}/events",
        "/v1/models",
        "/v1/usage",
        "/readyz",
    )
    return [http.get(path).status_code for path in paths]
