"""The tools inside the service, over streamable HTTP: results are links, and no file is touched.

Everything is made for one request and ends with it. That a request which is sent again is the same job is up
to the service: its idempotency key is made from what the request asks for.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import httpx2
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import CallToolResult, ContentBlock

from tenuto_client import downloads, following, results, submission, transcripts
from tenuto_client.errors import IdempotencyConflict, InvalidSetting, Refused, refusal
from tenuto_client.exchange import Link, call
from tenuto_client.records import Artifact, Operation
from tenuto_client.session import AsyncSession
from tenuto_client.steps import Do, Flow, Request, path_of
from tenuto_client.submission import Reading
from tenuto_mcp import arguments
from tenuto_mcp import results as answers
from tenuto_mcp.desk import Service
from tenuto_mcp.server import ACCEPT_S, make_server
from tenuto_mcp.works import Work

TOOLS: Mapping[str, type[arguments.Arguments]] = {
    "say": arguments.waiting_at_most(arguments.Say, arguments.WAIT_S),
    "transcribe": arguments.waiting_at_most(arguments.TranscribeUpload, arguments.WAIT_S),
    "draw": arguments.waiting_at_most(arguments.Draw, arguments.WAIT_S),
    "job": arguments.waiting_at_most(arguments.Job, arguments.WAIT_S),
    "voices": arguments.Voices,
    "models": arguments.Models,
    "balance": arguments.Balance,
}
HERE = "http://tenuto"
"""Our own address, where no request leaves the process."""
RETRIES = 1
"""Of one request; an assistant that reads of a limit can wait better than a call can."""


class Recordings(Protocol):
    """What the service does with recordings that are sent with a call."""

    async def uploaded(self, key: str) -> str | None:
        """The input that the recording sent under this key became before, if any."""

    def decoded(self, content: bytes, document: Mapping[str, Any]) -> AbstractAsyncContextManager[Path]:
        """A recording in any form that the service reads, as a FLAC while the context lasts.

        ValueError: why it is not read. Refused: the job of this document would not be accepted.
        """


async def answer(
    scope: Any,
    body: bytes,
    send: Any,
    *,
    app: Any,
    api_key: str,
    address: str,
    recordings: Recordings,
    timeout_s: float = 60.0,
) -> None:
    """Answer one request of the protocol. The tools call `app` with the key; links begin with `address`.

    The answer is one document, or a stream of events if the request asks for progress.
    """
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        # Whoever calls us cancels us when the client leaves.
        return messages.pop() if messages else await asyncio.Event().wait()

    link = Link(HERE, api_key, timeout_s, RETRIES, transport=httpx2.ASGITransport(app=app))
    desk = HostedDesk(link, address, recordings)
    manager = StreamableHTTPSessionManager(
        make_server(desk),
        stateless=True,
        json_response=b'"progressToken"' not in body,
        max_request_body_size=len(body) + 1,
    )
    try:
        async with manager.run():
            await manager.handle_request(scope, receive, send)
    finally:
        await desk.close()


def refused(status: int, document: Any) -> Refused:
    """What the SDK would raise for an answer with this status and body."""
    return refusal(status, document)


class HostedDesk:
    """The tools of one request."""

    tools = TOOLS
    about = (
        "Speech, transcripts and images as durable jobs. Results are links, which the same key opens. A "
        "request that is sent again is the same job and is charged once."
    )

    def __init__(self, link: Link, address: str, recordings: Recordings) -> None:
        self.service = Service(AsyncSession(link))
        self._link = link
        self._address = address
        self._recordings = recordings
        self._works: list[Work] = []

    async def call(self, tool: str, taken: arguments.Arguments) -> CallToolResult | Work:
        """Carry out a tool."""
        if isinstance(taken, arguments.Job):
            if not taken.cancel:
                return await self.task(taken.job_id)
            operation = await self.service.show(taken.job_id, cancel=True)
            return answers.answer(f"Job {operation.id} is {operation.state}.", answers.facts_of(operation))
        if isinstance(taken, arguments.Making):
            return await self._make(tool, taken)
        return await self.service.look_up(taken)

    async def task(self, job_id: str) -> Work:
        """A job of the account, with its result if it has one."""
        operation = await self.service.show(job_id)
        work = self._begin()
        work.note_operation(operation)
        work.start(self._finish(work, Reading(operation, wait_s=0.0), None))
        if not operation.is_pending:
            await work.until(lambda: work.is_done, ACCEPT_S)
        return work

    async def close(self) -> None:
        """Stop waiting; jobs continue."""
        for work in self._works:
            await work.stop()
        await self.service.session.driver.close()

    async def _make(self, tool: str, taken: arguments.Making) -> Work:
        kind, parameters = await self.service.parameters(taken)
        model = await self.service.model(taken, kind)
        document: dict[str, Any] = {"model": model, "parameters": parameters}
        content = None
        if isinstance(taken, arguments.TranscribeUpload):
            content = taken.content()
            document["input_artifact_ids"] = [taken.input_artifact_id]
        work, form = self._begin(), getattr(taken, "format", None)
        return work.start(self._carry_out(work, document, content, _key_of(tool, taken, content), form))

    def _begin(self) -> Work:
        work = Work()
        self._works.append(work)
        return work

    async def _carry_out(
        self, work: Work, document: dict[str, Any], content: bytes | None, key: str, form: str | None
    ) -> CallToolResult:
        try:
            if content is not None:
                document["input_artifact_ids"] = [await self._upload(work, document, content, key)]
            reading = await self.service.run(submission.post(self._link, submission.encode(document), key))
        except IdempotencyConflict as error:
            raise InvalidSetting(
                "the same request was sent before, when its model or voice was another one; name `model` and"
                " the id of the voice, or use the next number as `take`, for another job"
            ) from error
        return await self._finish(work, reading, form)

    async def _upload(self, work: Work, document: Mapping[str, Any], content: bytes, key: str) -> str:
        """The id of the input that the recording becomes; the same for the same key and bytes."""
        if (known := await self._recordings.uploaded(key)) is not None:
            return known
        try:
            async with self._recordings.decoded(content, document) as flac:
                recording = await asyncio.to_thread(submission.Recording.of, flac)
                upload = submission.upload(self._link, recording, key, work.note_bytes)
                return (await self.service.run(upload)).id
        except ValueError as error:
            raise InvalidSetting(f"recording: {error}") from error
        except Refused:
            # Another try of this request may have been accepted meanwhile, with the last of the money.
            if (known := await self._recordings.uploaded(key)) is None:
                raise
            return known

    async def _finish(self, work: Work, reading: Reading, form: str | None) -> CallToolResult:
        """Wait for the job; its result as an answer."""
        work.note_operation(reading.operation)
        flow = following.wait(self._link, reading, on_change=work.note_operation)
        operation = (await self.service.run(flow)).operation
        work.note_operation(operation)
        if operation.erased_at is not None:
            raise InvalidSetting(f"the result of {operation.id} was erased; the next `take` is another job")
        artifact = following.result_of(operation)
        kind = operation.kind or results.kind_of(artifact)
        return await self._answer(operation, artifact, kind, form or results.NATIVE[kind])

    async def _answer(self, operation: Operation, artifact: Artifact, kind: str, form: str) -> CallToolResult:
        is_native = form == results.NATIVE[kind]
        where = path_of("artifacts", artifact.id, "content" if is_native else "rendition")
        url = self._address + where + ("" if is_native else f"?form={form}")
        size_bytes = artifact.size_bytes if is_native else None
        facts = {**answers.facts_of(operation), "url": url}
        more: list[ContentBlock] = [
            answers.link(url, operation.id + results.suffix_of(form), form, size_bytes)
        ]
        text = f"The result is at {url}; the same key opens it. {answers.sentence(operation)}"
        if kind == "recognition":
            facts["text"] = answers.excerpt(await self.service.run(_transcript(self._link, artifact)))
            text += f"\n\n{facts['text']}" if facts["text"] else "\n\nNo speech was recognised."
        elif kind == "image" and (preview := await self.service.run(_preview(self._link, artifact))):
            more.append(preview)
        return answers.answer(text, facts, *more)


def _key_of(tool: str, taken: arguments.Making, content: bytes | None) -> str:
    """The idempotency key: equal for all that is the same job, whatever form its result is asked for in."""
    asked = taken.model_dump(mode="json", exclude={"wait_s", "format", "recording"}, exclude_defaults=True)
    if content is not None:
        asked["recording"] = hashlib.sha256(content).hexdigest()
    return "mcp-" + hashlib.sha256(json.dumps([tool, asked], sort_keys=True).encode()).hexdigest()


def _transcript(link: Link, artifact: Artifact) -> Flow[str]:
    content = yield from downloads.load(link, artifact)
    text: str = yield Do(lambda: transcripts.written(json.loads(content), "txt"))
    return text


def _preview(link: Link, artifact: Artifact) -> Flow[ContentBlock | None]:
    """The image if it is small, else a rendition of it that is; None if neither is."""
    if artifact.size_bytes <= answers.PREVIEW_BYTES:
        return answers.image((yield from downloads.load(link, artifact)), "png")
    where = path_of("artifacts", artifact.id, "rendition")
    rendition = (yield from call(link, Request("GET", where, query={"form": "webp"}))).content
    return answers.image(rendition, "webp") if len(rendition) <= answers.PREVIEW_BYTES else None
