"""Saving what an engine shows while it speaks: bytes first, then the row, in a thread beside the synthesis.

The engine waits only when it is ahead by `MAX_AHEAD` segments. When the thread fails, the run hears of it
with its next segment or at its end; nothing is recorded before everything that was shown is saved.
"""

import queue
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import structlog

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import StorageFailed, Swept, TenutoError
from tenuto.hosts.host import HostResult
from tenuto.jobs import segments
from tenuto.jobs.segments import NewSegment, Shown
from tenuto.media.wav import WavInvalid, read_pcm16_wav
from tenuto.worker.calls import EngineCalls, ResultInvalid
from tenuto.worker.durable import store, write

MAX_AHEAD = 4
"""Segments that may wait to be saved; a segment has at most 16 MiB."""

_log = structlog.get_logger("tenuto.worker")


def run(calls: EngineCalls, parameters: dict[str, Any], inputs: dict[str, bytes]) -> HostResult:
    """One run of the job's engine; when the job streams, what it shows is saved before its result is given.

    Raises what `EngineCalls.run` and `Preview` raise.
    """
    if not parameters["stream"]:
        return calls.run(parameters, inputs)
    with Preview(calls) as preview:
        return calls.run(parameters, inputs, preview.show)


@dataclass(frozen=True, slots=True)
class _Waiting:
    sequence: int
    content: bytes
    duration_ms: int


class Preview:
    """The segments of one attempt. Use it as a context: at its end all that was shown is saved, or it raises.

    Raises Stale (the attempt is another's), StorageFailed, SegmentLimit, ResultInvalid.
    """

    def __init__(self, calls: EngineCalls) -> None:
        self._parts = calls.parts
        self._claim = calls.claim
        self._live = calls.watched.live
        self._shown = Shown()
        self._waiting: queue.Queue[_Waiting | None] = queue.Queue(MAX_AHEAD)
        self._failed: BaseException | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="segments", daemon=True)

    def __enter__(self) -> "Preview":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """What was shown before a failure is saved too: it stays readable."""
        self._waiting.put(None)
        self._thread.join()
        if error is None and self._failed is not None:
            raise self._failed

    def show(self, content: bytes, metadata: dict[str, Any]) -> None:
        """Take one segment; waits while too many are waiting."""
        if self._failed is not None:
            raise self._failed
        sequence = self._shown.count
        self._shown = self._shown.plus(len(content))
        try:
            wav = read_pcm16_wav(content)
        except WavInvalid as error:
            raise ResultInvalid(f"segment {sequence} is no WAV: {error}") from error
        self._waiting.put(_Waiting(sequence, content, wav.duration_ms))

    def _run(self) -> None:
        """Save one after the other; after a failure take the rest away, so that nobody waits for us."""
        while (waiting := self._waiting.get()) is not None:
            if self._failed is not None or self._given_up:
                continue
            try:
                self._save(waiting)
            except (StorageFailed, Swept) as error:
                self._give_up(error)
            except Exception as error:
                self._failed = error

    def _save(self, waiting: _Waiting) -> None:
        ids, attempt_id = self._parts.ids, self._claim.attempt_id
        blob = store(self._parts, ids.new("blob"), waiting.content, on_wait=self._live)
        new = NewSegment(ids.new("segment"), waiting.sequence, blob, waiting.duration_ms)
        failpoints.hit("segment.after_bytes")

        def save(tx: Transaction, now_ms: int) -> None:
            segments.save(tx, attempt_id, new, now_ms=now_ms)
            failpoints.hit("segment.before_commit")

        write(self._parts, save)
        failpoints.hit("segment.after_commit")

    def _give_up(self, error: TenutoError) -> None:
        """A call that is paid for goes on without its preview; any other is tried again as a whole."""
        if self._claim.rerunnable:
            self._failed = error
            return
        self._given_up = True
        _log.error("preview.given_up", job_id=self._claim.job_id, attempt_id=self._claim.attempt_id)
