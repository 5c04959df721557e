"""A worker that was taken for dead and comes back: it changes nothing."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crash import checker
from crash.conftest import MakeService
from crash.elsewhere import OtherWorker
from crash.processes import family, is_stopped, send, until
from servers.service import RunningService
from tenuto.db.database import Database

SILENCE = {"TENUTO_SILENCE_S": "1", "TENUTO_HEARTBEAT_S": "0.2"}
FREE_S = 1.0


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
        until(lambda: "attempt.superseded" in running.log_path.read_text(), 10, "it sees that it is late")
        after = _records(database)

        assert before == after
        assert "succeeded" == running.wait(running.submit("Both work on."))["state"]
    database.close()
    assert 0 == running.stop()
    checker.check_everything(running, jobs=2, credit_micros=1_000_000)


@contextmanager
def _other_worker(running: RunningService) -> Iterator[None]:
    other = OtherWorker(running)
    try:
        yield
    finally:
        code = other.stop()
    assert code == 0


def _stop_between_writes(database: Database, worker: int, job_id: str) -> None:
    """Stop it while it holds no lock: held ones would only make everybody wait."""
    while True:
        os.kill(worker, signal.SIGSTOP)
        until(lambda: is_stopped(worker), 5, "the worker is stopped")
        probe = threading.Thread(target=_touch, args=(database, job_id), daemon=True)
        probe.start()
        probe.join(FREE_S)
        if not probe.is_alive():
            return
        os.kill(worker, signal.SIGCONT)
        probe.join()


def _touch(database: Database, job_id: str) -> None:
    """Locks all that an attempt locks, and changes nothing."""
    database.write(lambda tx: tx.run("update job set metadata = metadata where id = :id", id=job_id))
    database.write(lambda tx: tx.run("update attempt set beat = beat where job_id = :id", id=job_id))
    database.write(lambda tx: tx.run("update worker set pid = pid"))


def _records(database: Database) -> dict[str, list[dict[str, Any]]]:
    """All that a completion could change."""
    ordered = {"job": "id", "attempt": "id", "artifact": "id", "blob": "id", "entry": "id"}
    ordered |= {"event": "job_id, sequence", "slot": "lane, number", "account": "id"}
    return {
        table: checker.rows(database, f"select * from {table} order by {order}")
        for table, order in ordered.items()
    }
