"""The MCP server: lists and calls the tools, reports progress, and offers jobs as tasks.

Tasks are the extension `io.modelcontextprotocol/tasks` (SEP-2663) of the protocol's version 2026-07-28; the
id of a task is that of its job. The library leaves the methods of extensions to its users. No transport is
known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    GetTaskRequestParams,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    Tool,
    ToolAnnotations,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tenuto_client.errors import InvalidSetting, JobCancelled, NotFound, TenutoError
from tenuto_client.records import Operation
from tenuto_mcp import arguments, results
from tenuto_mcp.desk import Desk
from tenuto_mcp.works import COMPLETE, Work

TASKS = "io.modelcontextprotocol/tasks"
VERSION = version("tenuto-mcp")
POLL_MS = 1000
ACCEPT_S = 30.0
"""How long a call waits at least for its job to be accepted, or read, and for a finished one's file."""

Context = ServerRequestContext[dict[str, Any], Any]

_ABOUT = {
    "say": "Synthesise speech from a text (Chinese, English, Japanese, Spanish, Arabic).",
    "transcribe": "Transcribe a recording of speech.",
    "draw": "Generate an image from a prompt.",
    "job": "Show a job, wait for it, get its result, or cancel it.",
    "voices": "List voices.",
    "models": "List the models that can be used, with prices.",
    "balance": "Show the credit of the account.",
}
_READS = ("voices", "models", "balance")


class _UpdateTaskParams(RequestParams):
    task_id: str


def make_server(desk: Desk) -> Server[dict[str, Any]]:
    """A server whose tools are the desk's."""
    edge = _Edge(desk)
    server: Server[dict[str, Any]] = Server(
        "tenuto",
        version=VERSION,
        title="Tenuto",
        instructions=desk.about,
        on_list_tools=edge.list_tools,
        on_call_tool=edge.call,  # type: ignore[arg-type] # a claimed result is an extension's own
    )
    server.extensions[TASKS] = {}
    server.add_request_handler("tasks/get", GetTaskRequestParams, edge.get_task)
    server.add_request_handler("tasks/update", _UpdateTaskParams, edge.update_task)
    server.add_request_handler("tasks/cancel", GetTaskRequestParams, edge.cancel_task)
    return server


class _Edge:
    """The protocol's requests as calls of the desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_tool(name, taken) for name, taken in self._desk.tools.items()])

    async def call(self, context: Context, params: CallToolRequestParams) -> CallToolResult | dict[str, Any]:
        """A tool's result, its error as a result, or the task that it has become."""
        try:
            model = self._desk.tools.get(params.name)
            if model is None:
                known = ", ".join(self._desk.tools)
                raise InvalidSetting(f"there is no tool of this name; choose from {known}")
            taken = arguments.checked(model, params.arguments)
            outcome = await self._desk.call(params.name, taken)
            if isinstance(outcome, CallToolResult):
                return outcome
            if _takes_tasks(context) and isinstance(taken, arguments.Making):
                return await _as_task(outcome)
            return await _await_result(context, outcome, getattr(taken, "wait_s", 0))
        except (TenutoError, OSError) as error:
            return results.fault(error)

    async def get_task(self, context: Context, params: GetTaskRequestParams) -> dict[str, Any]:
        """A task as it is now, with its result once there is one."""
        work = await self._task(context, params.task_id)
        if work.operation is None:
            await work.until(lambda: work.is_done or work.operation is not None, ACCEPT_S)
        return _task(params.task_id, work) | {"resultType": "complete"}

    async def update_task(self, context: Context, params: _UpdateTaskParams) -> dict[str, Any]:
        """Nothing is ever asked of a client, so there is nothing to update."""
        await self._task(context, params.task_id)
        return {"resultType": "complete"}

    async def cancel_task(self, context: Context, params: GetTaskRequestParams) -> dict[str, Any]:
        """Cancel the job; its task shows the state that it ends in."""
        await self._task(context, params.task_id)
        cancel = arguments.checked(self._desk.tools["job"], {"job_id": params.task_id, "cancel": True})
        try:
            await self._desk.call("job", cancel)
        except TenutoError as error:
            raise MCPError(INVALID_PARAMS, error.message) from error
        return {"resultType": "complete"}

    async def _task(self, context: Context, task_id: str) -> Work:
        if not _takes_tasks(context):
            raise MCPError(
                MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"this needs the extension {TASKS}",
                {"requiredCapabilities": {"extensions": {TASKS: {}}}},
            )
        try:
            return await self._desk.task(task_id)
        except NotFound as error:
            raise MCPError(INVALID_PARAMS, "there is no task of this id") from error
        except TenutoError as error:
            raise MCPError(INVALID_PARAMS, error.message) from error


def _tool(name: str, taken: type[arguments.Arguments]) -> Tool:
    reads = name in _READS
    hints = ToolAnnotations(
        title=_ABOUT[name],
        read_only_hint=reads,
        destructive_hint=False if name != "job" else None,
        idempotent_hint=True,
        open_world_hint=False,
    )
    about = _ABOUT[name]
    if issubclass(taken, arguments.Making):
        about += " The result is a job, charged once; while it takes longer than `wait_s`, ask `job` for it."
    return Tool(name=name, description=about, input_schema=dict(arguments.schema(taken)), annotations=hints)


def _takes_tasks(context: Context) -> bool:
    """Whether this request says that its client can use tasks."""
    capabilities = context.session.client_capabilities
    extensions: Mapping[str, Any] = (capabilities.extensions if capabilities is not None else None) or {}
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS and TASKS in extensions


async def _await_result(context: Context, work: Work, seconds: float) -> CallToolResult:
    """The result, or that the job continues; progress goes to a client that asked for it."""
    clock = asyncio.get_running_loop().time
    end, reported = clock() + seconds, -1.0
    while not work.is_done:
        if work.progress > reported:
            reported = work.progress
            await context.session.report_progress(reported, COMPLETE, work.message)
        # The rest is short: reading a job, saving a result. And without the job's id no later call could ask.
        left_s = end - clock() + (0.0 if _is_known(work) and _is_pending(work) else ACCEPT_S)
        if left_s <= 0:
            break
        await work.changed(left_s)
    if work.is_done:
        return work.result()
    if work.operation is None:
        raise InvalidSetting("the service has not accepted the job yet; send the same request again")
    return results.unfinished(work.operation, work.message)


async def _as_task(work: Work) -> CallToolResult | dict[str, Any]:
    """The task that a request has become; its result if it is complete already. Raises what made it fail."""
    await work.until(lambda: work.is_done or _is_known(work), ACCEPT_S)
    if work.is_done:
        return work.result()
    if work.operation is None:
        raise InvalidSetting("the service has not accepted the job yet; send the same request again")
    return _task(work.operation.id, work) | {"resultType": "task"}


def _is_known(work: Work) -> bool:
    """Whether the job has been read: one from the journal is only an id at first."""
    return work.operation is not None and work.operation.created_at is not None


def _is_pending(work: Work) -> bool:
    return work.operation is not None and work.operation.is_pending


def _task(task_id: str, work: Work) -> dict[str, Any]:
    """A task as SEP-2663 shows it. A tool's error is a result: only an error of the protocol fails a task."""
    operation = work.operation or Operation(task_id, "queued")
    created_at = operation.created_at or 0
    changed_at = operation.finished_at or operation.started_at or created_at
    task: dict[str, Any] = {
        "taskId": task_id,
        "status": "working",
        "statusMessage": work.message,
        "createdAt": datetime.fromtimestamp(created_at, UTC).isoformat(),
        "lastUpdatedAt": datetime.fromtimestamp(changed_at, UTC).isoformat(),
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
    if not work.is_done:
        return task
    try:
        result = work.result()
    except JobCancelled as error:
        return task | {"status": "cancelled", "statusMessage": error.message}
    except (TenutoError, OSError) as error:
        result = results.fault(error)
    dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return task | {"status": "completed", "result": dumped}
