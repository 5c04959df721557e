"""Keeps paid results that the store of bytes does not take at once: in the database, or else in a file.

The database is better: any worker can store a result from there, and it outlives this machine. The file is
for when it hangs or is away as well, and for what is too large for it. Knows no kind of job.
A paid chunk that the database does not take in time is in a file, too, until it does.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from tenuto.db.database import Transaction
from tenuto.errors import Stale, StorageFailed, StoreUnreachable, Unavailable, causes
from tenuto.features.kept_results import results, store
from tenuto.features.kept_results.results import MAX_BYTES, KeptResult
from tenuto.file.apart import Apart
from tenuto.file.reasons import reason
from tenuto.host.host import HostResult
from tenuto.job import chunks, finish
from tenuto.job.finish import RecordedResult
from tenuto.job.queue import Claim
from tenuto.job.rows import ChunkKey
from tenuto.job.states import UNFORESEEN
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import Duty, Turn
from tenuto.worker.engine_calls import EngineCalls
from tenuto.worker.result_keeper import keeping
from tenuto.worker.watch import Watch

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
            _write(path, self._result.content)
        except OSError as error:
            self._lost = f"it could not be kept in {path.parent} either ({error.strerror}) and is lost"
            return
        self._file = path
        _log.error("result.kept_aside", job_id=claim.job_id, attempt_id=claim.attempt_id, reason=self._why)


def keep_chunk(context: WorkerContext, claim: Claim, key: ChunkKey, transcript: dict[str, Any]) -> None:
    """Write a finished chunk to a file, if possible: a worker with this data folder adds it to its job."""
    path, why = context.settings.folder / RESCUED / f"{claim.attempt_id}.{key.role}.{key.number}", None
    try:
        _write(path, json.dumps([asdict(key), transcript]).encode())
    except OSError as error:
        why = error.strerror
    about = {"job_id": claim.job_id, "attempt_id": claim.attempt_id, "number": key.number}
    _log.error("chunk.not_stored", **about, is_kept=why is None, reason=why)


def _write(path: Path, content: bytes) -> None:
    """Write a file for us alone; if that fails, nothing is left."""
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def duties(watch: Watch) -> list[Duty]:
    """In threads of their own: the store may still hang, and the disk may while the store does not."""
    keeping.begin, keeping.keep_chunk = PaidResult, keep_chunk
    kept = KeptResults()
    return [
        Duty("kept_results", kept.store_all, thread="kept-results", is_needed=kept.may_store),
        Duty("rescued", take_files, every_s=60.0, thread="kept-files", is_awaited=False),
    ]


def take_files(turn: Turn) -> None:
    """Add chunks to their jobs. Remove the files of jobs that have ended in another way: their content is
    their caller's."""
    context = turn.context
    for path in sorted((context.settings.folder / RESCUED).glob("attempt_*")):
        with _logged():
            attempt_id = path.name.partition(".")[0]
            if path.suffix and _add_chunk(context, path, attempt_id):
                path.unlink(missing_ok=True)
            elif context.database.read(partial(store.is_over, attempt_id=attempt_id)):
                path.unlink(missing_ok=True)
                _log.info("result.not_needed", attempt_id=attempt_id)


def _add_chunk(context: WorkerContext, path: Path, attempt_id: str) -> bool:
    """Give the chunk in the file to its job, unless that has ended or the file is not whole."""
    try:
        key, transcript = json.loads(path.read_bytes())
        chunk, now_ms = ChunkKey(**key), context.clock()
    except (ValueError, TypeError):
        return False
    try:
        context.database.write(
            lambda tx: chunks.add(tx, attempt_id, chunk, transcript, now_ms=now_ms, is_late=True)
        )
    except Stale:
        return False
    return True


class KeptResults:
    """Stores what workers that are gone have kept.

    In a thread of its own, as the store may still hang. Several workers may store the same result: one of
    them records it, and the sweep removes the other bytes.
    """

    def __init__(self) -> None:
        self._pause_s = self._not_before = 0.0

    def may_store(self, turn: Turn) -> bool:
        """Whether the rescue has come upon some, and the store was not in trouble just now."""
        return bool(turn.kept) and time.monotonic() >= self._not_before

    def store_all(self, turn: Turn) -> None:
        """Store those that the rescue came upon; again in each round, for as long as they are kept."""
        for attempt_id in turn.kept:
            if turn.stopping.is_set() or not self.may_store(turn):
                return
            with _logged():
                self._store(turn.context, attempt_id)

    def _store(self, context: WorkerContext, attempt_id: str) -> None:
        try:
            kept = context.database.read(lambda tx: results.find(tx, attempt_id))
        except (ValueError, TypeError, KeyError) as error:
            _hand_over(context, attempt_id, error)
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


def _hand_over(context: WorkerContext, attempt_id: str, error: Exception) -> None:
    """Its rows are damaged: an operator decides, and its slot is free for other jobs."""
    now_ms, evidence = context.clock(), causes(error)
    context.database.write(
        lambda tx: finish.hand_over(
            tx, attempt_id, code="unforeseen", message=UNFORESEEN, evidence=evidence, now_ms=now_ms
        )
    )
    _log.error("job.recovery_required", attempt_id=attempt_id)


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """It is tried again as long as the result is kept; Stale: another worker has recorded it."""
    try:
        yield
    except Stale:
        pass
    except (StorageFailed, StoreUnreachable, Unavailable) as error:
        _log.warning("store.away", reason=reason(error.__cause__ or error))
    except Exception as error:
        log_failure(_log, "upkeep.failed", error, duty="kept_results")
