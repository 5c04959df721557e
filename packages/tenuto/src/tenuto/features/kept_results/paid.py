"""Paid results that the store of bytes does not take at once: kept in the database, or else in a file.

The database is better: any worker can store a result from there, and it outlives this machine. The file is
for when it hangs or is away as well, and for what is too large for it. Knows no kind of job.
"""

import contextlib
import os
import time
from pathlib import Path

from tenuto.db.database import Transaction
from tenuto.errors import Stale, StorageFailed, StoreUnreachable, Unavailable, causes
from tenuto.features.kept_results import results, store
from tenuto.features.kept_results.results import MAX_BYTES, KeptResult
from tenuto.file.apart import Apart
from tenuto.file.reasons import reason
from tenuto.host.host import HostResult
from tenuto.job import finish
from tenuto.job.finish import RecordedResult
from tenuto.job.states import UNFORESEEN
from tenuto.logs import get_logger, log_failure
from tenuto.worker.calls import EngineCalls
from tenuto.worker.context import WorkerContext
from tenuto.worker.housekeeping import BackgroundThread
from tenuto.worker.keeping import keeping

RESCUED = "rescued"
"""The subfolder of the data folder for results that the database did not take either."""
ROW_S = 2.0
"""How long the database has to take one; then it is written to a file. Less than a worker has to leave."""

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
"""Between two tries while the store takes nothing: each worker reads a whole result for a try."""

_log = get_logger("tenuto.worker")


class PaidResult:
    """One result, from the engine's answer until it is recorded. For the attempt's own thread."""

    def __init__(self, calls: EngineCalls, result: HostResult) -> None:
        self._context = calls.context
        self._claim = calls.claim
        self._result = KeptResult(result.content, result.media_type, result.metadata, result.duration_ms)
        self._is_tried = self._is_in_database = False
        self._file: Path | None = None
        self._lost = self._why = ""

    def keep(self) -> None:
        """Keep it, once: in the database, or in a file if that does not answer soon either."""
        if not self._is_tried:
            self._is_tried = True
            self._is_in_database = self._write_row()
            if not self._is_in_database:
                self._write_file()

    def leave(self) -> str | None:
        """The worker ends now. None: the database keeps the result; the attempt stays open until that is
        stored. Otherwise where it is, or why it is lost."""
        self.keep()
        if self._file is not None and self._write_row():
            self._is_in_database = True
            self.forget()
        if self._is_in_database:
            return None
        if self._file is None:
            return self._lost
        command = f"tenuto admin recover complete {self._claim.job_id} --file {self._file}"
        return f"the result is in {self._file} on the worker's machine: {command}"

    def forget(self) -> None:
        """It is safe elsewhere."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink()

    def _write_row(self) -> bool:
        if len(self._result.content) > MAX_BYTES:
            self._why = "it is too large for the database"
            return False
        context, attempt_id = self._context, self._claim.attempt_id

        def keep(tx: Transaction) -> None:
            results.keep(tx, attempt_id, self._result, now_ms=context.clock())

        kept = Apart(lambda: context.database.write(keep))
        if not kept.ended.wait(ROW_S):
            self._why = "the database does not answer"
            return False
        try:
            kept.result()
        except Exception as error:  # A bug, too: the file is left.
            self._why = f"the database {reason(error.__cause__ or error)}"
            return False
        _log.warning("result.kept", job_id=self._claim.job_id, attempt_id=attempt_id)
        return True

    def _write_file(self) -> None:
        claim = self._claim
        path = self._context.settings.folder.absolute() / RESCUED / claim.attempt_id
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            path.touch(mode=0o600)
            with path.open("wb") as file:
                file.write(self._result.content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            self._lost = f"it could not be kept in {path.parent} either ({error.strerror}) and is lost"
            return
        self._file = path
        _log.error("result.kept_aside", job_id=claim.job_id, attempt_id=claim.attempt_id, reason=self._why)


class KeptResults:
    """Keeps the paid results of a worker, and stores what workers that are gone have kept.

    In a thread of its own, as the store may still hang. Several workers may store the same result: one of
    them records it, and the sweep removes the other bytes.
    """

    def __init__(self, context: WorkerContext) -> None:
        keeping.begin = PaidResult
        self._context = context
        self._wanted: set[str] = set()
        self._pause_s = self._not_before = 0.0
        self.thread = BackgroundThread("kept-results", self._failed)
        # Another one, as the disk may hang while the store does not. Nobody waits for it.
        self.files = BackgroundThread("kept-files", self._failed)

    def store(self, attempt_id: str) -> None:
        """Store this attempt's result, soon; called again for as long as it is kept."""
        self._wanted.add(attempt_id)
        if time.monotonic() >= self._not_before:
            self.thread.begin(self._store_all)

    def _store_all(self) -> None:
        while self._wanted and not self.thread.stopping.is_set():
            self._store(self._wanted.pop())

    def look_at_files(self) -> None:
        """Remove the files of jobs that have ended in another way: their content is their caller's."""
        self.files.begin(self._forget_files)

    def _forget_files(self) -> None:
        for path in sorted((self._context.settings.folder / RESCUED).glob("attempt_*")):
            if self._context.database.read(lambda tx, path=path: store.is_over(tx, path.name)):  # type: ignore[misc]
                path.unlink(missing_ok=True)
                _log.info("result.not_needed", attempt_id=path.name)

    def _store(self, attempt_id: str) -> None:
        context = self._context
        try:
            kept = context.database.read(lambda tx: results.find(tx, attempt_id))
        except (ValueError, TypeError, KeyError) as error:
            self._hand_over(attempt_id, error)
            return
        if kept is None:
            return
        try:
            blob = context.blobs.write(context.ids.new("blob"), kept.content)
        except Exception:
            self._pause_s = min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S)
            self._not_before = time.monotonic() + self._pause_s
            raise
        self._pause_s = 0.0
        recorded = RecordedResult(blob, kept.media_type, kept.metadata, kept.duration_ms)
        now_ms = context.clock()
        context.database.write(lambda tx: finish.record_result(tx, attempt_id, recorded, now_ms=now_ms))

    def _hand_over(self, attempt_id: str, error: Exception) -> None:
        """Its rows are damaged: an operator decides, and its slot is free for other jobs."""
        now_ms, evidence = self._context.clock(), causes(error)
        self._context.database.write(
            lambda tx: finish.hand_over(
                tx, attempt_id, code="unforeseen", message=UNFORESEEN, evidence=evidence, now_ms=now_ms
            )
        )
        _log.error("job.recovery_required", attempt_id=attempt_id)

    def _failed(self, error: Exception) -> None:
        """It is tried again as long as the result is kept; Stale: another worker has recorded it."""
        if isinstance(error, Stale):
            return
        if isinstance(error, StorageFailed | StoreUnreachable | Unavailable):
            _log.warning("store.away", reason=reason(error.__cause__ or error))
        else:
            log_failure(_log, "upkeep.failed", error, duty="kept_results")
