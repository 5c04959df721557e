"""The tools beside the user's own folder: files go in and out there, and a journal survives a kill.

The journal lies in the folder, too. It gets the exact request before it is sent, the job's id as soon as it
is known, and the file once it is complete. Entries are kept for as long as the SDK keeps its own, so that a
request that is sent again, by whichever program, gets the same job and file and is not charged twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mcp_types import CallToolResult, ContentBlock

from tenuto_client import audio, downloads, following, placing, results, submission, transcripts
from tenuto_client.errors import AudioError, FFmpegFailed, InvalidSetting, JobError, JournalError
from tenuto_client.exchange import Link
from tenuto_client.journal import FINAL_WITHOUT_RESULT, SUFFIX, Entry, Journal
from tenuto_client.records import Operation
from tenuto_client.session import AsyncSession
from tenuto_client.steps import Do, Flow
from tenuto_client.submission import Reading, Recording
from tenuto_mcp import arguments
from tenuto_mcp import results as answers
from tenuto_mcp.desk import Service
from tenuto_mcp.folder import Folder
from tenuto_mcp.works import COMPLETE, SAVING, Work

TOOLS: Mapping[str, type[arguments.Arguments]] = {
    "say": arguments.SayToFile,
    "transcribe": arguments.TranscribeFile,
    "draw": arguments.DrawToFile,
    "job": arguments.JobToFile,
    "voices": arguments.Voices,
    "models": arguments.Models,
    "balance": arguments.Balance,
}
MOST_WORKS = 64
"""How many requests of this process may be unfinished at once."""


@dataclass(frozen=True, slots=True)
class Order:
    """A request, and where its result goes."""

    kind: str
    document: Mapping[str, Any]
    form: str
    output: str
    """The name of the file; empty if it is named after the job."""
    take: int
    source: Path | None = None

    @property
    def purpose(self) -> dict[str, Any]:
        """What another process has to know to finish it."""
        return {"mcp": self.kind, "form": self.form, "output": self.output, "take": self.take}


class LocalDesk:
    """The tools of one folder."""

    tools = TOOLS

    def __init__(self, link: Link, folder: Folder) -> None:
        self.folder = folder
        self.journal = Journal(folder.own, _is_over)
        self.about = (
            f"Speech, transcripts and images as durable jobs. Files are in the folder {folder.root}; name "
            "them relative to it. A request that is sent again is the same job and is charged once."
        )
        self._link = link
        self._service: Service | None = None
        self._works: dict[str, Work] = {}
        """Requests of this process by what they ask for, and by the id of their job."""

    @property
    def service(self) -> Service:
        """The service; its connections belong to the running event loop."""
        if self._service is None:
            self._service = Service(AsyncSession(self._link))
        return self._service

    async def call(self, tool: str, taken: arguments.Arguments) -> CallToolResult | Work:
        """Carry out a tool."""
        if isinstance(taken, arguments.JobToFile):
            return await self._job(taken)
        if isinstance(taken, arguments.Making):
            return await self._make(taken)
        return await self.service.look_up(taken)

    async def task(self, job_id: str, *, again: bool = False) -> Work:
        """A job of this folder, which an earlier process may have begun, or any other one of the account.

        `again` starts over if this process could not finish it, for want of space, say.
        """
        work = self._works.get(job_id)
        if work is not None and not (again and work.is_done):
            return work
        entry = self._entry_of(job_id)
        work = Work()
        if entry is not None:
            work.is_resumed = True
            return self._keep(job_id, work.start(self._resume(work, entry, job_id)))
        operation = await self.service.show(job_id)
        work.note_operation(operation)
        return work.start(self._report(work))

    async def _make(self, taken: arguments.Making) -> Work:
        kind, parameters = await self.service.parameters(taken)
        source = self.folder.source(taken.file) if isinstance(taken, arguments.TranscribeFile) else None
        form, output = self._named(kind, taken)
        asked: list[Any] = [kind, parameters, taken.model, form, output, taken.take]
        if source is not None:
            about = source.stat()
            asked += [str(source), about.st_size, about.st_mtime_ns]
        name = json.dumps(asked, sort_keys=True)
        if (work := self._running(name)) is not None:
            return work
        document = {"model": await self.service.model(taken, kind), "parameters": parameters}
        # An equal call may have begun while this one waited for the service.
        if (work := self._running(name)) is not None:
            return work
        work = Work()
        order = Order(kind, document, form, output, taken.take, source)
        return self._keep(name, work.start(self._carry_out(work, order)))

    def _named(self, kind: str, taken: arguments.Arguments) -> tuple[str, str]:
        """The form of the result and the name of its file. Raises InvalidSetting, AudioError."""
        native = "txt" if kind == "recognition" else results.NATIVE[kind]
        form: str | None = getattr(taken, "format", None)
        output: str | None = getattr(taken, "output", None)
        if output is None:
            return form or native, ""
        path = self.folder.target(output)
        if not path.suffix:
            form = form or native
            path = path.with_name(path.name + results.suffix_of(form))
        wanted = results.form_of(kind, path)
        if wanted is None or form not in (None, wanted):
            raise InvalidSetting(
                f"output: {path.name} should end in {results.suffix_of(form or native)}"
                if wanted or form
                else f"output: {path.name} should end in one of {', '.join(results.FORMS[kind])}"
            )
        results.check(wanted)
        return wanted, self.folder.name(path)

    async def _job(self, taken: arguments.JobToFile) -> CallToolResult | Work:
        if taken.cancel:
            operation = await self.service.show(taken.job_id, cancel=True)
            return answers.answer(f"Job {operation.id} is {operation.state}.", answers.facts_of(operation))
        if taken.output is None:
            return await self.task(taken.job_id, again=True)
        operation = await self.service.show(taken.job_id)
        form, output = self._named(operation.kind or "speech", taken)
        if (self.folder.root / output).exists():
            raise InvalidSetting(f"output: {output} exists; choose another name")
        order = Order(operation.kind or "speech", {}, form, output, 0)
        work = Work()
        return work.start(self._finish(work, None, Reading(operation, wait_s=0.0), order))

    def _running(self, name: str) -> Work | None:
        work = self._works.get(name)
        return None if work is None or work.is_done else work

    def _keep(self, name: str, work: Work) -> Work:
        """Remember a request of this process. Raises InvalidSetting if there are too many."""
        for old in [key for key, one in self._works.items() if one.is_done]:
            if len(self._works) > MOST_WORKS:
                del self._works[old]
        if len({id(one) for one in self._works.values() if not one.is_done}) >= MOST_WORKS:
            work.cancel()
            raise InvalidSetting(f"{MOST_WORKS} requests are unfinished; wait for one with `job`")
        self._works[name] = work
        return work

    async def _carry_out(self, work: Work, order: Order) -> CallToolResult:
        reading, entry = await self.service.run(self._accepted(work, order))
        self._works[reading.operation.id] = work
        work.is_resumed = not entry.is_new
        return await self._finish(work, entry, reading, order)

    async def _resume(self, work: Work, entry: Entry, job_id: str) -> CallToolResult:
        purpose = entry.purpose
        order = Order(purpose["mcp"], {}, purpose["form"], purpose["output"], purpose["take"])
        reading = Reading(Operation(job_id, "queued"), wait_s=0.0)
        return await self._finish(work, entry, reading, order)

    async def _finish(
        self, work: Work, entry: Entry | None, reading: Reading, order: Order
    ) -> CallToolResult:
        """Wait for the job, save its result, and note that in the journal."""
        try:
            work.note_operation(reading.operation)
            link = self.service.session.link
            flow = following.wait(link, reading, on_change=work.note_operation)
            operation = (await self.service.run(flow)).operation
            work.note_operation(operation)
            path = await self._save(work, entry, operation, order)
            if entry is not None:
                # If it cannot be written, the next request for this work saves the same file again.
                with suppress(JournalError):
                    entry.note(ended=operation.state, file=self.folder.name(path))
            work.note(COMPLETE, "complete")
            return await self._answer(operation, order, path)
        except JobError as error:
            if entry is not None and error.operation.state in FINAL_WITHOUT_RESULT:
                with suppress(JournalError):
                    entry.note(ended=error.operation.state)
            raise
        finally:
            if entry is not None:
                entry.release()

    def _accepted(self, work: Work, order: Order) -> Flow[tuple[Reading, Entry]]:
        """Get the job accepted, or the one that an earlier process sent for the same request."""
        flac = audio.as_flac(order.source) if order.source is not None else None
        work.note(0.0, "submitting" if flac is None else "converting")
        recording: Recording | None = None
        try:
            if flac is not None and order.source is not None:
                content, name = (yield Do(partial(_entered, flac, order.source))), order.source.name
                recording = yield Do(lambda: Recording.of(content, name))
            request = submission.Work(
                order.document,
                recording,
                purpose=order.purpose,
                on_bytes=work.note_bytes,
                on_entry=lambda entry: self._check_new(entry, order),
            )
            yield Do(self.journal.sweep)
            yield Do(lambda: self._check_alone(request.intent))
            reading, entry = yield from submission.submit(self.service.session.link, request)
        finally:
            if flac is not None:
                flac.__exit__(None, None, None)
        assert entry is not None
        return reading, entry

    def _check_new(self, entry: Entry, order: Order) -> None:
        """Refuse a name that is taken, before anything is sent; a request that was sent keeps its own."""
        if not entry.is_new:
            return
        # Another process may have begun the same at the same moment: neither has sent anything.
        self._check_alone(entry.facts["intent"], own=1)
        if order.output and (self.folder.root / order.output).exists():
            raise InvalidSetting(f"output: {order.output} exists; choose another name")

    def _check_alone(self, intent: str, own: int = 0) -> None:
        """Refuse a request that another process is carrying out, or it would be two jobs.

        `own` is how many entries of the request this process holds.
        """
        if not self.folder.own.is_dir():
            return
        entries = list(self.journal.interrupted(intent))
        for entry in entries:
            entry.release()
        names = [path for path in self.folder.own.iterdir() if path.name.startswith(intent)]
        if len([path for path in names if path.suffix == SUFFIX]) > len(entries) + own:
            raise JournalError(
                "another program is carrying out the same request; ask again when it has finished"
            )

    async def _save(self, work: Work, entry: Entry | None, operation: Operation, order: Order) -> Path:
        """The file with the result: the one that was saved before if it is still there, or a new one."""
        artifact = following.result_of(operation, order.kind)
        if entry is not None and (saved := entry.facts.get("file")) is not None:
            # What is there now may be a link, which leads anywhere.
            with suppress(InvalidSetting):
                return self.folder.source(str(saved))
        work.note(SAVING, "saving")
        form = order.form
        target = self.folder.root / (
            order.output or downloads.file_name(operation.id) + results.suffix_of(form)
        )
        scratch = placing.scratch(target, operation.id)
        downloads.remove_partials(scratch, operation.id)
        flow = results.save(
            self.service.session.link, artifact, scratch, kind=order.kind, form=form, job_id=operation.id
        )
        try:
            await self.service.run(flow)
            path: Path = await self.service.run(_step(lambda: self.folder.place(scratch, target)))
        finally:
            scratch.unlink(missing_ok=True)
        return path

    async def _answer(self, operation: Operation, order: Order, path: Path) -> CallToolResult:
        """The file as a tool's answer."""
        name, size_bytes = self.folder.name(path), path.stat().st_size
        facts = {**answers.facts_of(operation), "file": name, "path": str(path), "size_bytes": size_bytes}
        more: list[ContentBlock] = [answers.link(path.as_uri(), name, order.form, size_bytes)]
        text = f"Saved {name}. {answers.sentence(operation)}"
        if order.kind == "recognition":
            transcript = await self.service.run(_step(lambda: _transcript(path, order.form)))
            facts["text"] = answers.excerpt(transcript)
            text += f"\n\n{facts['text']}" if facts["text"] else "\n\nNo speech was recognised."
        elif order.kind == "image" and (preview := await self._preview(operation, order, path)) is not None:
            more.append(preview)
        return answers.answer(text, facts, *more)

    async def _preview(self, operation: Operation, order: Order, path: Path) -> ContentBlock | None:
        """The image if it is small, else a rendition of it that is; None if neither is."""
        if path.stat().st_size <= answers.PREVIEW_BYTES:
            return answers.image(path.read_bytes(), order.form)
        artifact = following.result_of(operation, order.kind)
        scratch = placing.scratch(path.with_suffix(".preview"), operation.id)
        flow = results.save(
            self.service.session.link, artifact, scratch, kind="image", form="webp", job_id=operation.id
        )
        try:
            await self.service.run(flow)
            if scratch.stat().st_size <= answers.PREVIEW_BYTES:
                return answers.image(scratch.read_bytes(), "webp")
        finally:
            scratch.unlink(missing_ok=True)
        return None

    async def _report(self, work: Work) -> CallToolResult:
        """A job of which this folder knows nothing: its state, and how to get its result."""
        operation = work.operation
        assert operation is not None
        if operation.is_pending:
            reading = Reading(operation, wait_s=0.0)
            flow = following.wait(self.service.session.link, reading, on_change=work.note_operation)
            operation = (await self.service.run(flow)).operation
        following.result_of(operation)
        text = (
            f"The job succeeded. {answers.sentence(operation)} Call `job` with `output` to save its result."
        )
        return answers.answer(text, answers.facts_of(operation))

    def _entry_of(self, job_id: str) -> Entry | None:
        """The entry of a job of this folder, locked."""
        found: Entry | None = None
        for entry in self.journal.interrupted():
            if found is None and entry.operation_id == job_id and "mcp" in entry.purpose:
                found = entry
            else:
                entry.release()
        return found


def _is_over(entry: Entry) -> bool:
    """Whether a request was answered; the folder may have a batch's journal, too."""
    return entry.ended is not None and "mcp" in entry.purpose


def _entered(flac: AbstractContextManager[Path | bytes], source: Path) -> Path | bytes:
    """A recording as FLAC. Raises AudioError without its folder and what ffmpeg said."""
    try:
        return flac.__enter__()
    except AudioError as error:
        text = error.summary if isinstance(error, FFmpegFailed) else error.message
        raise AudioError(text.replace(str(source), source.name)) from error


def _step(function: Any) -> Flow[Any]:
    """A function that touches the disk, as a flow."""
    return (yield Do(function))


def _transcript(path: Path, form: str) -> str:
    text = path.read_text("utf-8")
    return transcripts.written(json.loads(text), "txt") if form == "json" else text
