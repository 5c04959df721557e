"""Batches: many lines, each made into one job and one file exactly once, however often it is interrupted.

The folder is the batch. It holds the results, `report.csv`, and a journal that records the exact request of a
line before it is sent, its job's id as soon as it is known, and its end once its file is complete. Only files
whose content the journal knows are ever replaced. The
idempotency key is derived from the batch and the line, so that no run can submit a line twice. Flows that
`drive` runs.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tenuto_client import audio, downloads, following, pacing, placing, reads, results, tables
from tenuto_client.errors import (
    AuthenticationFailed,
    Erased,
    IdempotencyConflict,
    InsufficientBalance,
    InvalidSetting,
    JobError,
    JournalError,
    RateLimited,
    Refused,
    ServiceFailed,
    ServiceUnreachable,
    TenutoError,
    UnexpectedAnswer,
)
from tenuto_client.exchange import Link, Retry
from tenuto_client.journal import FINAL_WITHOUT_RESULT, Entry, Journal, digest, fingerprint
from tenuto_client.lines import NOT_SUBMITTED, BatchReport, Line, LineResult, document_of
from tenuto_client.records import Operation
from tenuto_client.steps import Do, Flow, Pause
from tenuto_client.submission import Reading, Recording, encode, is_settled, post, upload

IN_FLIGHT = 32
"""How many jobs of a batch are unfinished at a time, by default."""
MOST_IN_FLIGHT = 1000
PATIENCE_S = 600.0
"""How long an outage of the service may last before the batch stops."""
OTHERS_S = 5.0
"""The oldest job is read as often as the service allows; each of the others at most this often."""
SCAN_S = 1.0
"""How often to look for new lines, if the plan has a `scan`."""
CREDIT_S = 60.0
"""How long to wait before retrying a line that the balance did not cover."""
REPORT = "report.csv"
JOURNAL = ".tenuto"
MOST_WRITTEN = 16
"""How many versions of a file a batch knows as its own."""
COLUMNS = ("line", "id", "state", "file", "sha256", "charge", "error", "job")

_INTENT = "batch"
_FORMS = {**results.NATIVE, "recognition": "txt"}
_TEMPORARY = (RateLimited, ServiceFailed, ServiceUnreachable)


OnLine = Callable[[LineResult], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The lines of a batch, and what to do with them."""

    lines: list[Line]
    folder: Path
    forms: Mapping[str, str] = field(default_factory=dict)
    """The form of each kind's results, from `results.FORMS`; by default WAV, PNG and plain text."""
    in_flight: int = IN_FLIGHT
    again: bool = False
    """Make another job for a line whose job failed or was cancelled."""
    on_line: OnLine | None = None
    """Called with the result of each line that is finished."""
    scan: Callable[[], list[Line]] | None = None
    """Called during the run; returns the lines that arrived since its last call. Equal content is then the
    same work, whatever its name, and no outage or low balance ends the run."""
    is_over: Callable[[], bool] = lambda: True
    """With `scan`: whether no more lines will come."""

    def __post_init__(self) -> None:
        if not 1 <= self.in_flight <= MOST_IN_FLIGHT:
            raise InvalidSetting(f"in_flight must be a number from 1 to {MOST_IN_FLIGHT}")


def run(link: Link, plan: Plan) -> Flow[BatchReport]:
    """Finish every line. Run again with the same folder, it continues.

    Raises ServiceUnreachable, ServiceFailed and RateLimited once patience is exhausted, InsufficientBalance,
    AuthenticationFailed, JournalError, OSError (the folder cannot be written): the report is written in any
    case, and accepted jobs continue on the service.
    """
    book: _Book = yield Do(lambda: _open(link, plan), lambda book: book.entry.release())
    try:
        yield from _Run(link, plan, book).work()
    finally:
        try:
            report = book.report()
        finally:
            book.entry.release()
    return report


class _Book:
    """The open journal of a batch, and the result of each line so far."""

    def __init__(self, plan: Plan, entry: Entry) -> None:
        self.plan = plan
        self.entry = entry
        self.results: dict[int, LineResult] = {}
        self._before = _written_before(plan.folder, entry)

    def record(self, name: str) -> Mapping[str, Any]:
        """What is recorded about a line."""
        record: Mapping[str, Any] = self.entry.facts.get(name) or {}
        return record

    def note(self, name: str, **record: Any) -> Do:
        """The step that replaces what is recorded about a line."""
        return Do(lambda: self.entry.note(**{name: record}))

    def written(self, name: str) -> list[str]:
        """The SHA-256 of what the batch may have written under a name, newest last."""
        sha256s: list[str] | None = self.entry.facts.get(f"written {name}")
        return self._before.get(name, []) if sha256s is None else sha256s

    def place(self, scratch: Path, name: str, sha256: str, *, is_newest: bool = True) -> Path:
        """Give a complete file this name in the folder, or a numbered one if another's file has it, or the
        batch's own of a newer line."""
        own = self.written(name)
        if own[-1:] != [sha256]:
            # Before it is there, so that it is known whenever the batch is cut off.
            own = [*own, sha256][-MOST_WRITTEN:] if is_newest else [sha256, *own[1 - MOST_WRITTEN :]]
            self.entry.note(**{f"written {name}": own})
        return placing.place(scratch, self.plan.folder / name, own=own if is_newest else ())

    def finish(self, line: Line, result: LineResult) -> None:
        """Record the result of a line."""
        self.results[line.number] = result
        if self.plan.on_line is not None:
            self.plan.on_line(result)

    def report(self) -> BatchReport:
        """Write `report.csv`."""
        outcomes = tuple(
            self.results.get(line.number) or LineResult(line.number, line.id, error=line.error)
            for line in self.plan.lines
        )
        rows = (
            (each.number, each.id, each.state, each.file, each.sha256, each.charged, each.error, each.job_id)
            for each in outcomes
        )
        content = tables.written([COLUMNS, *rows]).encode("utf-8", "replace")
        scratch = placing.scratch(self.plan.folder / REPORT, self.entry.key)
        downloads.write(scratch, content)
        # Where the name is somebody else's, the number stays the same.
        name = self.entry.facts.get("report", REPORT)
        path = self.place(scratch, name, hashlib.sha256(content).hexdigest())
        if path.name != name:
            self.entry.note(**{"report": path.name, f"written {path.name}": self.written(name)})
        return BatchReport(path, outcomes)


def _open(link: Link, plan: Plan) -> _Book:
    """The journal of the folder, locked. Raises JournalError, OSError."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    journal = Journal(plan.folder / JOURNAL)
    entry = next(iter(journal.interrupted(_INTENT)), None)
    if entry is None:
        if _count(journal):
            raise _in_use(plan.folder)
        entry = journal.begin(_INTENT, base_url=link.base_url)
        if _count(journal) > 1:
            # Two programs began at the same moment: neither has sent anything.
            entry.finish()
            raise _in_use(plan.folder)
    if entry.facts.get("base_url") != link.base_url:
        entry.release()
        raise JournalError(
            f"the batch in {plan.folder} was sent to {entry.facts.get('base_url')}, not to {link.base_url}; "
            "use that address, or another folder for a new batch"
        )
    return _Book(plan, entry)


def _written_before(folder: Path, entry: Entry) -> dict[str, list[str]]:
    """What a version has written that replaced whatever had a name, and whose journal has no lists."""
    written: dict[str, list[str]] = {}
    for record in entry.facts.values():
        if isinstance(record, dict) and "file" in record and "wanted" not in record:
            written.setdefault(record["file"], []).append(record["sha256"])
    if written:
        written[REPORT] = placing.sha256_of(folder / REPORT, ",".join(COLUMNS).encode())
    return written


def _count(journal: Journal) -> int:
    return len(list(journal.folder.glob(f"{_INTENT}-*.journal")))


def _in_use(folder: Path) -> JournalError:
    return JournalError(f"another program works on the batch in {folder}; wait for it, or use another folder")


@dataclass(slots=True)
class _Task:
    """A line that is not finished."""

    line: Line
    name: str = ""
    """The key of its record in the journal."""
    reading: Reading | None = None
    """Its job, once accepted."""
    read_at: float = -math.inf


@dataclass(slots=True)
class _Run:
    """One run of a batch."""

    link: Link
    plan: Plan
    book: _Book
    waiting: deque[_Task] = field(default_factory=deque)
    flying: list[_Task] = field(default_factory=list)
    """Submitted but not finished, oldest first."""
    models: dict[str, str] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)
    """The last line that wants a file name: with a `scan`, the same file may arrive with another content."""
    scan_at: float = 0.0
    submit_at: float = 0.0
    """On the monotonic clock: nothing is submitted before this, and nothing is read before `read_at`."""
    read_at: float = 0.0
    is_short: bool = False
    """The balance did not cover a line, and no job has finished since."""
    troubles: int = 0
    """How many requests in a row failed."""
    answered_at: float = 0.0
    can_hold: bool = True

    @property
    def once(self) -> Link:
        """The link without retries: the run itself decides when to retry a request."""
        return replace(self.link, max_retries=0)

    def work(self) -> Flow[None]:
        """Submit and collect until every line is finished."""
        self.answered_at = self.link.clock.monotonic()
        self._take(self.plan.lines)
        while self.waiting or self.flying or not (self.plan.scan is None or self.plan.is_over()):
            now = self.link.clock.monotonic()
            if self.plan.scan is not None and now >= self.scan_at:
                lines: list[Line] = yield Do(self.plan.scan)
                self.plan.lines.extend(lines)
                self._take(lines)
                self.scan_at = now + SCAN_S
            can_submit = bool(self.waiting) and len(self.flying) < self.plan.in_flight and not self.is_short
            if can_submit and now >= self.submit_at:
                yield from self._submit(self.waiting.popleft())
                continue
            dues = sorted((self._due(task), at) for at, task in enumerate(self.flying))
            next_at = min(
                self.submit_at if can_submit else math.inf,
                dues[1][0] if len(dues) > 1 else math.inf,
                math.inf if self.plan.scan is None else self.scan_at,
            )
            if not dues or dues[0][0] > now:
                yield Pause(min([next_at, *(due for due, _ in dues[:1])]) - now)
            else:
                yield from self._read(self.flying[dues[0][1]], next_at - now)

    def _take(self, lines: list[Line]) -> None:
        for line in lines:
            if line.error:
                self.book.finish(line, LineResult(line.number, line.id, error=line.error))
            else:
                self.newest[self._path(line).name] = line.number
                self.waiting.append(_Task(line))

    def _due(self, task: _Task) -> float:
        """When a job may be read: as the service asks, and less often for all but the oldest."""
        assert task.reading is not None
        pause_s = 0.0 if task is self.flying[0] else OTHERS_S
        return max(task.reading.due_at, task.read_at + pause_s, self.read_at)

    def _submit(self, task: _Task) -> Flow[None]:
        """Get a line's job accepted, or finish the line if it is already done or cannot be submitted."""
        try:
            if (yield from self._is_done(task)):
                return
            task.reading = yield from self._accepted(task)
        except _TEMPORARY as error:
            self.waiting.appendleft(task)
            self.submit_at = self._retry_at(error)
        except InsufficientBalance as error:
            # Finished jobs release the part of their holds that they did not cost.
            if not self.flying and self.plan.scan is None:
                raise
            self.waiting.appendleft(task)
            self.is_short = bool(self.flying)
            if not self.is_short:
                self.submit_at = self.link.clock.monotonic() + CREDIT_S
                self._tell(Retry(CREDIT_S, error.status, str(error), math.inf))
        except (AuthenticationFailed, UnexpectedAnswer):
            raise
        except (TenutoError, OSError) as error:
            if isinstance(error, JournalError) and error.code != "other_api_key":
                raise
            self._finish(task, error=str(error))
        else:
            self._note_answer()
            self.flying.append(task)

    def _is_done(self, task: _Task) -> Flow[bool]:
        """Whether an earlier run finished the line: its file exists, or its job ended without a result."""
        line = task.line
        if not task.name:
            task.name = yield Do(lambda: _name(self.book.entry, line, is_named=self.plan.scan is None))
        record = self.book.record(task.name)
        if record.get("state") in FINAL_WITHOUT_RESULT:
            if not self.plan.again:
                self._finish(task, record["state"], error=record["error"], job_id=record["job"])
                return True
            yield self.book.note(task.name, tries=record.get("tries", 0) + 1)
        elif record.get("wanted", record.get("file")) == self._path(line).name:
            size_bytes: int = yield Do(lambda: _size(self.plan.folder / record["file"]))
            is_replaced = self.book.written(self._path(line).name)[-1:] != [record["sha256"]]
            if size_bytes == record["size_bytes"] and not is_replaced:
                self._finish_well(task, record)
                return True
        return False

    def _accepted(self, task: _Task) -> Flow[Reading]:
        record = self.book.record(task.name)
        if record.get("job"):
            return Reading(Operation(record["job"], "queued"), wait_s=0.0)
        tries = record.get("tries", 0)
        key = f"batch-{self.book.entry.key}-{task.name}-{tries}"
        may_have_arrived = "body" in record
        if not may_have_arrived:
            body = encode((yield from self._document(task.line, key)))
            caller = fingerprint(self.link.api_key)
            yield self.book.note(task.name, tries=tries, body=body.decode(), caller=caller)
            record = self.book.record(task.name)
        elif record["caller"] != fingerprint(self.link.api_key):
            raise JournalError(
                "it was sent with another API key, and it is not known whether it arrived; run the batch "
                "with that key again",
                code="other_api_key",
            )
        try:
            reading = yield from post(self.once, record["body"].encode(), key)
        except _TEMPORARY:
            raise
        except TenutoError as error:
            is_bound = isinstance(error, UnexpectedAnswer | IdempotencyConflict)
            if isinstance(error, Refused):
                error.is_in_doubt |= may_have_arrived
                is_bound |= not is_settled(error)
            if not is_bound:
                # Nothing is bound to the key: the next run builds the request again.
                yield self.book.note(task.name, tries=tries)
            raise
        yield self.book.note(task.name, tries=tries, job=reading.operation.id)
        return reading

    def _document(self, line: Line, key: str) -> Flow[dict[str, Any]]:
        model = line.model or self.models.get(line.kind)
        if model is None:
            model = self.models[line.kind] = yield from reads.model_for(self.once, line.kind)
        document = document_of(line, model)
        source = line.file
        if source is None:
            return document
        flac = audio.as_flac(source)
        content: Path | bytes = yield Do(flac.__enter__)
        try:
            recording: Recording = yield Do(lambda: Recording.of(content, source.name))
            upload_key = f"{key}-{recording.sha256[:16]}"
            try:
                artifact = yield from upload(self.once, recording, upload_key)
            except (IdempotencyConflict, Erased):
                artifact = yield from upload(self.once, recording, str(uuid.uuid4()))
        finally:
            flac.__exit__(None, None, None)
        return {**document, "input_artifact_ids": [artifact.id]}

    def _read(self, task: _Task, free_s: float) -> Flow[None]:
        """Read a job; if it is finished, save its result. The service may delay the response by `free_s`."""
        assert task.reading is not None
        operation = task.reading.operation
        hold_s = pacing.hold_s(task.reading.wait_s, min(free_s, pacing.MAX_HOLD_S)) if self.can_hold else 0
        try:
            task.reading = yield from following.show(self.once, operation.id, hold_s=hold_s)
            self.can_hold = self.can_hold and task.reading.can_hold
            self._note_answer()
            task.read_at = self.link.clock.monotonic()
            if task.reading.operation.is_pending:
                return
            yield from self._collect(task)
        except _TEMPORARY as error:
            self.read_at = self._retry_at(error)
            return
        except JobError as error:
            state = error.operation.state
            if state in FINAL_WITHOUT_RESULT:
                record = {"job": operation.id, "state": state, "error": str(error)}
                yield self.book.note(task.name, tries=self.book.record(task.name).get("tries", 0), **record)
            self._finish(task, state, error=str(error), job_id=operation.id)
        except (AuthenticationFailed, JournalError, UnexpectedAnswer):
            raise
        except TenutoError as error:
            self._finish(task, task.reading.operation.state, error=str(error), job_id=operation.id)
        self.flying.remove(task)
        self.is_short = False

    def _collect(self, task: _Task) -> Flow[None]:
        """Save the result of a succeeded job, and record it. Raises JobError for any other job."""
        assert task.reading is not None
        operation, line, path = task.reading.operation, task.line, self._path(task.line)
        artifact = following.result_of(operation, line.kind)
        scratch = placing.scratch(path, operation.id)
        yield Do(lambda: downloads.remove_partials(scratch, operation.id))
        saved = yield from results.save(
            self.link, artifact, scratch, kind=line.kind, form=self._form(line), job_id=operation.id
        )
        self._note_answer()
        is_newest = self.newest[path.name] == line.number
        placed: Path = yield Do(
            lambda: self.book.place(scratch, path.name, saved.sha256, is_newest=is_newest)
        )
        charged = operation.billing.charged if operation.billing else None
        record = {"job": operation.id, "state": operation.state, "file": placed.name, "charged": charged}
        tries = self.book.record(task.name).get("tries", 0)
        yield self.book.note(
            task.name,
            tries=tries,
            wanted=path.name,
            size_bytes=saved.size_bytes,
            sha256=saved.sha256,
            **record,
        )
        self._finish_well(task, self.book.record(task.name))

    def _form(self, line: Line) -> str:
        return self.plan.forms.get(line.kind) or _FORMS[line.kind]

    def _path(self, line: Line) -> Path:
        return self.plan.folder / f"{line.id}{results.suffix_of(self._form(line))}"

    def _finish_well(self, task: _Task, record: Mapping[str, Any]) -> None:
        result = LineResult(
            task.line.number,
            task.line.id,
            record["state"],
            record["file"],
            record["sha256"],
            record["charged"],
            job_id=record["job"],
        )
        self.book.finish(task.line, result)

    def _finish(
        self, task: _Task, state: str = NOT_SUBMITTED, *, error: str, job_id: str | None = None
    ) -> None:
        result = LineResult(task.line.number, task.line.id, state, error=error, job_id=job_id)
        self.book.finish(task.line, result)

    def _note_answer(self) -> None:
        self.troubles, self.answered_at = 0, self.link.clock.monotonic()

    def _retry_at(self, error: RateLimited | ServiceFailed | ServiceUnreachable) -> float:
        """When to retry after a temporary failure. Raises the error once patience is exhausted."""
        now = self.link.clock.monotonic()
        self.troubles += 1
        wait_s = pacing.backoff_s(self.troubles)
        if not isinstance(error, ServiceUnreachable):
            wait_s = max(pacing.MIN_WAIT_S, error.retry_after_s or pacing.DEFAULT_WAIT_S)
        patience_s = pacing.GIVE_UP_S if isinstance(error, RateLimited) else PATIENCE_S
        if self.plan.scan is not None:
            patience_s = math.inf
        left_s = self.answered_at + patience_s - now
        if wait_s > left_s:
            raise error
        status = None if isinstance(error, ServiceUnreachable) else error.status
        self._tell(Retry(wait_s, status, str(error.__cause__ or ""), left_s))
        return now + wait_s

    def _tell(self, retry: Retry) -> None:
        if self.link.on_retry is not None:
            self.link.on_retry(retry)


def _name(entry: Entry, line: Line, *, is_named: bool) -> str:
    """What identifies a line: all its fields, its id only if `is_named`, and the content of its recording."""
    content = "" if line.file is None else _content_sha256(entry, line.file)
    words = {"model": line.model, "parameters": line.parameters, "metadata": line.metadata}
    return digest(
        line.id if is_named else "", line.kind, json.dumps(words, sort_keys=True, default=str), content
    )


def _content_sha256(entry: Entry, path: Path) -> str:
    """The SHA-256 of a recording, which is only read again if its size or modification time has changed."""
    name, about = f"file {path}", path.stat()
    noted = entry.facts.get(name)
    if noted is None or noted[:2] != [about.st_size, about.st_mtime_ns]:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        entry.note(**{name: [about.st_size, about.st_mtime_ns, sha256]})
        return sha256
    return str(noted[2])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
