"""Submits work exactly once: journal, upload, submission. Flows that `drive` runs.

The order matters. The journal entry is on disk before the first byte is sent, the job's id as soon as it is
known, and a retry sends the same bytes under the same key.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tenuto_client import pacing
from tenuto_client.errors import (
    AuthenticationFailed,
    Erased,
    IdempotencyConflict,
    JournalError,
    RateLimited,
    Refused,
    ServiceFailed,
    UnexpectedAnswer,
    utf8,
)
from tenuto_client.exchange import Link, ask, call, parsed
from tenuto_client.journal import Entry, Journal, digest, fingerprint
from tenuto_client.records import Artifact, Operation, read
from tenuto_client.steps import Answer, Do, FileBody, Flow, OnBytes, Request, path_of

Document = Mapping[str, Any]

MAX_FILE_NAME_CHARACTERS = 255
"""The longest file name of an upload that the service accepts."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A job as it was last read, and when it may be read again."""

    operation: Operation
    wait_s: float = pacing.DEFAULT_WAIT_S
    """Seconds of `Retry-After`: how long the service may delay the next read instead of a pause here."""
    due_at: float = 0.0
    """On the link's monotonic clock: the job is not read again before this."""
    can_hold: bool = True
    """False once the service has refused the parameter `wait`."""

    @classmethod
    def of(cls, link: Link, answer: Answer, *, held_s: float = 0.0, can_hold: bool = True) -> Reading:
        """A reading from a response that the service held back for `held_s` seconds."""
        wait_s = pacing.wait_s(answer.headers, link.clock.now())
        due_at = link.clock.monotonic() + max(0.0, wait_s - held_s)
        return cls(read(Operation, parsed(answer)), wait_s, due_at, can_hold)


@dataclass(frozen=True, slots=True)
class Recording:
    """A FLAC to transcribe: a file or bytes, with the SHA-256."""

    content: Path | bytes
    sha256: str
    size_bytes: int
    name: str | None = None
    """The name of the caller's file, by which its job is recognised."""

    @classmethod
    def of(cls, content: Path | bytes, name: str | None = None) -> Recording:
        """Hash a file or bytes."""
        if isinstance(content, bytes):
            return cls(content, hashlib.sha256(content).hexdigest(), len(content), name)
        with content.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            return cls(content, sha256, file.tell(), name)


@dataclass(frozen=True, slots=True)
class Work:
    """What to submit, and for what purpose."""

    document: Document
    """The body of the job; for recognition, without the id of its input."""
    recording: Recording | None = None
    key: str | None = None
    """The caller's own idempotency key, if any."""
    purpose: Mapping[str, Any] = field(default_factory=dict)
    """What a later `resume` needs to finish it. Empty for a program, which handles the result itself."""
    on_bytes: OnBytes | None = None
    again: bool = False
    """Submit the work again under a new key if an earlier job for it finished without a result."""
    on_entry: Callable[[Entry], None] | None = None
    """Called with the journal entry before anything is sent; may refuse the work by an error."""

    @property
    def intent(self) -> str:
        """A hash: equal for the same work with the same purpose."""
        purpose = json.dumps(self.purpose, sort_keys=True)
        return digest(encode(self.document), self.recording.sha256 if self.recording else b"", purpose)


def submit(link: Link, work: Work) -> Flow[tuple[Reading, Entry | None]]:
    """Submit work that an interrupted program may already have submitted; its entry stays locked."""
    if link.journal is None:
        return (yield from _without_journal(link, work)), None
    journal = link.journal
    entry: Entry = yield Do(lambda: _begin(journal, link, work), _leave)
    return (yield from carry_on(link, entry, work.recording, work.on_bytes)), entry


def take_up(journal: Journal, link: Link, work: Work) -> Entry:
    """The entry of an earlier, interrupted run of the same work, or a new one.

    A program's submission is continued only while it is in doubt: once its id is known, the same call is new
    work. A command's submission is continued until its file exists; if its job finished without a result, the
    entry keeps the id, and only `again` makes another job.
    """
    for entry in journal.interrupted(work.intent) if work.key is None else ():
        fits = entry.facts.get("base_url") == link.base_url and not entry.is_set_aside
        if not fits or not (work.purpose or entry.operation_id is None):
            entry.release()
        elif work.again and entry.ended is not None:
            entry.set_aside()
        else:
            try:
                check_caller(link, entry)
            except JournalError:
                entry.release()
                raise
            return entry
    facts: dict[str, Any] = {
        "base_url": link.base_url,
        "caller": fingerprint(link.api_key),
        "purpose": dict(work.purpose),
        "document": dict(work.document),
    }
    if work.recording is None:
        facts["body"] = encode(work.document)
    else:
        facts |= {"input_sha256": work.recording.sha256, "upload_key": _upload_key(work)}
    return journal.begin(work.intent, key=work.key, **facts)


def _begin(journal: Journal, link: Link, work: Work) -> Entry:
    entry = take_up(journal, link, work)
    try:
        if work.on_entry is not None:
            work.on_entry(entry)
    except BaseException:
        _leave(entry)
        raise
    return entry


def _leave(entry: Entry) -> None:
    """Nothing was sent for it by this call."""
    if entry.is_new:
        entry.finish()
    else:
        entry.release()


def check_caller(link: Link, entry: Entry) -> None:
    """Raises JournalError if another API key was used: the same idempotency key would make a second job."""
    in_doubt = entry.body is not None and entry.operation_id is None
    if in_doubt and entry.facts.get("caller") != fingerprint(link.api_key):
        raise JournalError(
            f"the same work was sent to {entry.facts.get('base_url')} with another API key, and it is not "
            "known whether it arrived; sent with this key, it could be done and charged twice",
            code="other_api_key",
            remedy="tenuto resume --same-key",
        )


def carry_on(
    link: Link, entry: Entry, recording: Recording | None = None, on_bytes: OnBytes | None = None
) -> Flow[Reading]:
    """Continue an entry from wherever it stopped until its job's id is known and in the journal."""
    if entry.operation_id is not None:
        return Reading(Operation(entry.operation_id, "queued"), wait_s=0.0)
    may_have_arrived = entry.body is not None and not entry.is_new
    try:
        if entry.body is None:
            yield from _upload_noted(link, entry, recording, on_bytes)
        assert entry.body is not None
        reading = yield from post(link, entry.body, entry.key)
        yield from _note_job(entry, reading.operation.id)
    except Refused as error:
        error.is_in_doubt |= may_have_arrived
        yield Do(entry.finish if is_settled(error) else entry.release)
        raise
    except BaseException:
        entry.release()
        raise
    return reading


def is_settled(error: Refused) -> bool:
    """Whether the refusal of a submission means that there is no job under its key.

    Once the API key is accepted, the service returns an existing job, even if it would refuse the request
    today. A proxy's answer says nothing about an earlier attempt.
    """
    if isinstance(error, RateLimited | ServiceFailed):
        return False
    return not (error.is_in_doubt and (error.is_foreign or isinstance(error, AuthenticationFailed)))


def _note_job(entry: Entry, job_id: str) -> Flow[None]:
    try:
        yield Do(lambda: entry.note(operation_id=job_id))
    except JournalError as error:
        raise JournalError(
            f"{job_id} was accepted, but {error.message}, and the same call gets the same job",
            remedy="tenuto resume",
        ) from error


def post(link: Link, body: bytes, key: str) -> Flow[Reading]:
    """POST /v1/jobs; every retry uses the same key."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    if link.traceparent is not None and (traceparent := link.traceparent()):
        headers["traceparent"] = traceparent
    answer = yield from call(link, Request("POST", path_of("jobs"), headers, body))
    return Reading.of(link, answer)


def upload(link: Link, recording: Recording, key: str, on_bytes: OnBytes | None = None) -> Flow[Artifact]:
    """POST /v1/input-artifacts; the response must have the size and hash of what was sent."""
    headers = {
        "Content-Type": "audio/flac",
        "X-Service-Content-SHA256": recording.sha256,
        "Idempotency-Key": key,
    }
    name = _plain(recording.name)
    if name:
        headers["X-Service-File-Name"] = quote(name, safe="")
    content: bytes | FileBody
    if isinstance(recording.content, bytes):
        content = recording.content
    else:
        content = FileBody(recording.content, recording.size_bytes, on_bytes)
    document = yield from ask(link, Request("POST", path_of("input-artifacts"), headers, content))
    artifact = read(Artifact, document.get("artifact") if isinstance(document, Mapping) else None)
    if (artifact.size_bytes, artifact.sha256) != (recording.size_bytes, recording.sha256):
        raise UnexpectedAnswer(f"{artifact.id} does not have the size and hash of the upload")
    return artifact


def _upload_noted(
    link: Link, entry: Entry, recording: Recording | None, on_bytes: OnBytes | None
) -> Flow[None]:
    input_id = entry.facts.get("input_artifact_id")
    if input_id is None:
        if recording is None:
            raise JournalError(
                "the upload was interrupted and the recording is no longer available; send it again"
            )
        try:
            artifact = yield from upload(link, recording, entry.facts["upload_key"], on_bytes)
        except (IdempotencyConflict, Erased):
            # The conversion gave different bytes this time, or the input was erased; neither cost anything.
            fresh = str(uuid.uuid4())
            yield Do(lambda: entry.note(upload_key=fresh, input_sha256=recording.sha256))
            artifact = yield from upload(link, recording, fresh, on_bytes)
        input_id = artifact.id
        yield Do(lambda: entry.note(input_artifact_id=input_id))
    body = encode({**entry.facts["document"], "input_artifact_ids": [input_id]})
    yield Do(lambda: entry.note(body=body))


def _without_journal(link: Link, work: Work) -> Flow[Reading]:
    key, document = work.key or str(uuid.uuid4()), dict(work.document)
    if work.recording is not None:
        artifact = yield from upload(link, work.recording, _upload_key(work), work.on_bytes)
        document["input_artifact_ids"] = [artifact.id]
    return (yield from post(link, encode(document), key))


def _upload_key(work: Work) -> str:
    """The same for the same idempotency key and recording, or a repeated call would name another input."""
    if work.key is None or work.recording is None:
        return str(uuid.uuid4())
    return digest(work.key, work.recording.sha256)


def _plain(name: str | None) -> str:
    """A file's name as the service accepts it; names on a disk may contain anything."""
    marks = [mark for mark in name or "" if unicodedata.category(mark) not in ("Cc", "Cs")]
    return "".join(marks[:MAX_FILE_NAME_CHARACTERS])


def encode(document: Document) -> bytes:
    """The bytes of a request's body."""
    return utf8(json.dumps(document, ensure_ascii=False, separators=(",", ":")))
