"""A worker that was taken for dead and comes back: it changes nothing."""

import hashlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crash.conftest import MakeService
from servers import checker
from servers.elsewhere import OtherWorker
from servers.processes import await_stop, family, send, until
from servers.service import RunningService
from servers.shots import Shots
from servers.speed import HANG_S
from tenuto.db.database import Database

METERED = "fake/metered-speech"
DAY_S = 24 * 3600
SILENCE = {"TENUTO_SILENCE_S": "1", "TENUTO_HEARTBEAT_S": "0.2"}


def test_a_stopped_worker_that_comes_back_changes_no_row(make_service: MakeService) -> None:
    """SIGSTOP past the silence, another worker finishes the job, SIGCONT: one result, one charge (P3, P9).

    The other worker has a data folder of its own, so that it sees beats and not the lock of the stopped one.
    """
    running = make_service(**SILENCE)
    running.start()
    running.key = running.make_key(credit="1")
    database = checker.open_records(running)
    job_id = running.submit("[fake:sleep=3] Taken for dead.")
    running.wait(job_id, states=("running",))
    worker = family(running).worker
    assert worker is not None
    _stop_between_writes(database, worker, job_id)

    with _other_worker(running):
        operation = running.wait(job_id)
        before = _records(database)
        assert (2, "succeeded") == (operation["attempt"], operation["state"])
        # The engine of the stopped worker went on: the completion lies ready for it.
        send(worker, signal.SIGCONT)
        until(lambda: "attempt.superseded" in running.log_path.read_text(), HANG_S, "it sees that it is late")
        after = _records(database)

        assert before == after
        assert "succeeded" == running.wait(running.submit("Both work on."))["state"]
    database.close()
    assert 0 == running.stop()
    checker.check_everything(running, jobs=2, credit_micros=1_000_000)


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_paid_result_that_was_swept_before_it_was_recorded_is_stored_anew(
    make_service: MakeService, tmp_path: Path
) -> None:
    """A worker stands still between bytes and row for more than a day, and another sweeps the bytes: when it
    comes back it records no bytes that are gone, and what was paid for is not lost (P5, P6, P10).
    """
    shots = Shots(tmp_path / "shots")
    running = make_service(**shots.variables, TENUTO_SILENCE_S="3", TENUTO_HEARTBEAT_S="1")
    running.start()
    running.key = running.make_key(credit="1")
    database = checker.open_records(running)
    shots.arm("result.after_bytes", "1:delay=5")
    job_id = running.submit("[fake:sleep=0.5] Paid for once.", model=METERED)
    worker = shots.fired("result.after_bytes", 15)
    assert worker is not None
    _stop_between_writes(database, worker, job_id)
    known = {row["id"] for row in checker.rows(database, "select id from blob")}
    [bytes_] = [path for path in _blobs(running) if path.name not in known]
    os.utime(bytes_, (time.time() - DAY_S - 60,) * 2)
    checker.let_an_hour_pass(running)
    with _other_worker(running):
        waits = running.wait(job_id, states=("recovery_required",))
        until(lambda: not bytes_.exists(), HANG_S, "the bytes are swept")
        until(
            lambda: bool(checker.rows(database, "select id from blob where is_removed = 1")), HANG_S, "marked"
        )
        send(worker, signal.SIGCONT)
        operation = running.wait(job_id, states=("succeeded",))
    [artifact] = operation["artifacts"]
    with running.client() as http:
        content = http.get(f"/v1/artifacts/{artifact['id']}/content")
    entries = [row["type"] for row in checker.rows(database, "select type from entry order by type")]
    database.close()

    assert ("recovery_required", 1) == (waits["state"], operation["attempt"])
    assert (200, artifact["sha256"]) == (content.status_code, hashlib.sha256(content.content).hexdigest())
    assert ["credit", "hold", "settle"] == entries
    assert 0 == running.stop()
    checker.check_audit(running)


def _blobs(running: RunningService) -> list[Path]:
    return [path for path in (running.folder / "blobs").rglob("blob_*") if path.is_file()]


@contextmanager
def _other_worker(running: RunningService) -> Iterator[None]:
    other = OtherWorker(running)
    try:
        yield
    finally:
        code = other.stop()
    assert code == 0


def _stop_between_writes(database: Database, worker: int, job_id: str) -> None:
    os.kill(worker, signal.SIGSTOP)
    await_stop(worker, lambda: checker.touch(database, job_id))


def _records(database: Database) -> dict[str, list[dict[str, Any]]]:
    """All that a completion could change."""
    ordered = {"job": "id", "attempt": "id", "artifact": "id", "blob": "id", "entry": "id"}
    ordered |= {"event": "job_id, sequence", "slot": "lane, number", "account": "id"}
    return {
        table: checker.rows(database, f"select * from {table} order by {order}")
        for table, order in ordered.items()
    }
