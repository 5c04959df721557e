"""`/mcp`: tools for assistants over streamable HTTP; each call has the rights of the key it is sent with.

The tools come from the distribution `tenuto-mcp` (the extra `mcp`), which calls the routes of this API as any
program does. Requests share no state: there are no sessions, and an event stream ends with the call whose
progress it reports.
"""

import ipaddress
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tenuto import strict_json
from tenuto.account.caller import Caller
from tenuto.api import cors
from tenuto.api.answers import Answer, json_answer
from tenuto.api.call import Call, Routes
from tenuto.api.errors import error_body, status_of
from tenuto.api.json_body import MAX_VALUES, beside_large
from tenuto.api.service import Part, Service
from tenuto.config import Settings
from tenuto.config.addresses import NONE
from tenuto.errors import Forbidden, InvalidRequest, RateLimited, TenutoError
from tenuto.features.chat.routes import answered_while_there
from tenuto.features.mcp.settings import McpSettings
from tenuto.features.openai.recordings import Unreadable, decode, decoded_if_admitted, scratch_file
from tenuto.features.renditions.settings import RenditionSettings
from tenuto.file.uploads import record_of
from tenuto.job.submit import Request

PATH = "/mcp"
SMALL_BODY_BYTES = 256 * 1024
"""Enough for the longest prompt with every character escaped. A larger body counts as an upload."""
MAX_BODY_BYTES = 8 << 20
"""A recording a third over its limit still reaches the tool, whose answer explains what is allowed."""
MOST_CALLS = 8
"""Concurrent requests of one key; each may wait for its job, and makes further requests."""
PARSE_ERROR = -32700
"""JSON-RPC's code for a body that cannot be parsed."""


class Tools(Part):
    """The endpoint `/mcp`."""

    def __init__(self, service: Service) -> None:
        from tenuto_mcp.hosted import answer, refused

        # These libraries log each request, and their warnings quote the client.
        logging.getLogger("mcp").setLevel(logging.ERROR)
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        self._answer = answer
        self._refused = refused
        self._origins = cors.origins(service.settings.cors_origins)
        self._calls: Counter[str] = Counter()

    async def call(self, call: Call) -> Answer | None:
        """POST /mcp. If the client leaves, the call stops, but its job continues."""
        self._refuse_other_origins(call)
        caller = await call.authenticate()
        body = await _body(call, caller.account_id)
        with self._counted(caller.key_id):
            # Checked here first, because the library parses any body in the event loop.
            try:
                await beside_large(call, body, partial(strict_json.parse, body, max_values=MAX_VALUES))
            except InvalidRequest as error:
                return _not_read(error, call.request_id)
            return await answered_while_there(call, self._answered(call, body))

    async def _answered(self, call: Call, body: bytes) -> Answer | None:
        """The answer; None if it was already sent, as events."""
        answer, is_stream = Answer(500, b""), False

        async def send(message: Any) -> None:
            nonlocal is_stream
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                types = [one for one in message.get("headers", ()) if one[0] == b"content-type"]
                answer.media_type = (types or [answer.media_type])[0]
                is_stream = answer.media_type[1].startswith(b"text/event-stream")
                if is_stream:
                    await call.send(_head_of_stream(call, answer))
            elif is_stream:
                await call.send(message)
            else:
                answer.body += message.get("body", b"")

        key = call.header_values(b"authorization")[0][7:].strip().decode("ascii")
        recordings, address = Recordings(call, self._refused), _address(call)
        await self._answer(
            call.scope, body, send, app=call.service.app, api_key=key, address=address, recordings=recordings
        )
        return None if is_stream else answer

    @contextmanager
    def _counted(self, key_id: str) -> Iterator[None]:
        if self._calls[key_id] >= MOST_CALLS:
            message = f"this key already has {MOST_CALLS} calls of tools in progress; wait for their answers"
            raise RateLimited(message, limit="tool_calls")
        self._calls[key_id] += 1
        try:
            yield
        finally:
            self._calls[key_id] -= 1
            if not self._calls[key_id]:
                del self._calls[key_id]

    def _refuse_other_origins(self, call: Call) -> None:
        """Forbidden for a page of another origin, as the protocol requires (against DNS rebinding).

        A name that somebody else owns may resolve to us, so the request's Host proves nothing unless it is an
        address.
        """
        origins = [value.decode("latin-1") for value in call.header_values(b"origin")]
        if not origins:
            return
        host = (call.header(b"host") or b"").decode("latin-1")
        ours = {call.service.settings.public_url}
        if _is_address(host):
            ours |= {f"http://{host}", f"https://{host}"}
        if len(origins) > 1 or not ("*" in self._origins or origins[0] in self._origins | ours):
            raise Forbidden("pages of this origin may not call tools; `cors_origins` names those that may")


async def _body(call: Call, account_id: str) -> bytes:
    """The whole body; a large one takes an upload slot."""
    length = call.header(b"content-length")
    if length is not None and int(length) <= SMALL_BODY_BYTES:
        return await call.read_body(SMALL_BODY_BYTES)
    with call.service.uploads.slot(account_id):
        return await call.read_body(MAX_BODY_BYTES)


def _not_read(error: InvalidRequest, request_id: str) -> Answer:
    """The API's error, wrapped in JSON-RPC's."""
    data = json.loads(error_body(error, request_id, 400))["error"]
    told = {"code": PARSE_ERROR, "message": f"Parse error: {error.message}", "data": data}
    return json_answer(400, {"jsonrpc": "2.0", "id": None, "error": told})


def _head_of_stream(call: Call, answer: Answer) -> dict[str, Any]:
    headers = [
        answer.media_type,
        (b"cache-control", b"no-store"),
        (b"x-request-id", call.request_id.encode()),
    ]
    return {"type": "http.response.start", "status": answer.status, "headers": headers}


class Recordings:
    """What becomes of the recordings that are sent with a call."""

    def __init__(self, call: Call, refused: Callable[[int, Any], Exception]) -> None:
        self._call = call
        self._refused = refused

    async def uploaded(self, key: str) -> str | None:
        """The input that the recording sent under this key became before, if any: it need not be decoded."""
        caller = _caller(self._call)
        return await self._call.service.database.read_async(
            lambda tx: record_of(tx, key_id=caller.key_id, idempotency_key=key)
        )

    @asynccontextmanager
    async def decoded(self, content: bytes, document: Mapping[str, Any]) -> AsyncIterator[Path]:
        """A recording as the FLAC that the upload route accepts, for the job of this document.

        ValueError: it is not a recording. Raises the client's refusal of a job that would not be accepted.
        """
        call, service = self._call, self._call.service
        folder = service.settings.folder if service.settings.folder.is_dir() else None
        body = {**document, "input_artifact_ids": [service.ids.new("artifact")]}
        request = Request(_caller(call), "", "", "", body)
        with scratch_file(call) as file, scratch_file(call) as flac:
            file.write(content)
            work = partial(decode, file, flac, service.settings.of(RenditionSettings).ffmpeg, folder)
            try:
                await decoded_if_admitted(call, request, work)
            except Unreadable as error:
                raise ValueError(error.faults[0].message) from error
            except TenutoError as error:
                status = status_of(error)
                told = json.loads(error_body(error, call.request_id, status))
                raise self._refused(status, told) from error
            # The file is unnamed, so that nothing is left of it; the upload opens it by this path.
            yield Path(f"/proc/self/fd/{flac.fileno()}")


def _caller(call: Call) -> Caller:
    assert call.caller is not None, "calls are authenticated first"
    return call.caller


def _is_address(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _address(call: Call) -> str:
    """Our address as the client knows it, for links: `public_url`, or the Host of its request."""
    settings = call.service.settings
    host = (call.header(b"host") or b"").decode("latin-1")
    return (f"http://{host}" if settings.public_url == NONE else settings.public_url) + settings.base()


def serving(service: Service) -> Part:
    """The endpoint, unless the settings turn it off: then its libraries need not be there."""
    return Tools(service) if service.settings.of(McpSettings).mcp == "on" else Part()


def routes(settings: Settings) -> Routes:
    """The route of tools, unless the settings turn it off."""
    return {PATH: {"POST": call_tool}} if settings.of(McpSettings).mcp == "on" else {}


async def call_tool(call: Call) -> Answer | None:
    """POST /mcp."""
    return await call.service.part(Tools).call(call)
