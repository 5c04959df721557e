"""An assistant's program: the official client of MCP, and what it sees of `tenuto mcp`.

As a program (`python -m client.assistant FOLDER call|task TOOL ARGUMENTS`, `… FOLDER poll TASK`) it prints a
line of JSON for each thing that happens, so that a test can kill it in the middle.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import psutil
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import CallToolResult, GetTaskRequestParams, Request, Result

from servers.service import TENUTO

TASKS = "io.modelcontextprotocol/tasks"
POLL_S = 0.05


class Task(Result):
    """A task as a server creates it and shows it (SEP-2663)."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class TaskNow(Task):
    """What `tasks/get` answers."""

    result_type: Literal["complete"] = "complete"  # type: ignore[assignment]
    result: dict[str, Any] | None = None


class GetTask(Request[GetTaskRequestParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: GetTaskRequestParams
    name_param = "taskId"


class CancelTask(Request[GetTaskRequestParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: GetTaskRequestParams
    name_param = "taskId"


class Tasks(ClientExtension):
    """The client's side of the extension: it polls until a task has a result."""

    identifier = TASKS

    def __init__(self) -> None:
        self.created: list[Task] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=Task, resolve=self._resolve)]

    async def _resolve(self, task: Task, context: ClaimContext) -> CallToolResult:
        self.created.append(task)
        say(task=task.task_id)
        return await poll(context.session, task.task_id)


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


async def task_of(session: Any, task_id: str) -> TaskNow:
    request = GetTask(params=GetTaskRequestParams(task_id=task_id))
    now: TaskNow = await session.send_request(request, TaskNow)
    return now


async def poll(session: Any, task_id: str) -> CallToolResult:
    """The result of a task, once there is one."""
    while (now := await task_of(session, task_id)).status == "working":
        say(status=now.status, message=now.status_message)
        await asyncio.sleep(POLL_S)
    assert now.result is not None, now
    return CallToolResult.model_validate(now.result)


@asynccontextmanager
async def connected(folder: Path, *extensions: ClientExtension) -> AsyncIterator[Client]:
    server = StdioServerParameters(command=TENUTO, args=["mcp", str(folder)], env={**os.environ})
    async with Client(stdio_client(server), extensions=list(extensions)) as client:
        yield client


def facts(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    structured: dict[str, Any] = result.structured_content
    return structured


async def _main(folder: Path, act: str, *words: str) -> None:
    extensions = [] if act == "call" else [Tasks()]
    async with connected(folder, *extensions) as client:
        say(server=[child.pid for child in psutil.Process().children(recursive=True)])
        if act == "poll":
            result = await poll(client.session, words[0])
        else:

            async def progress(progress: float, total: float | None, message: str | None) -> None:
                say(progress=progress, total=total, message=message)

            result = await client.call_tool(words[0], json.loads(words[1]), progress_callback=progress)
        say(result=result.model_dump(mode="json"))


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), *sys.argv[2:]))
