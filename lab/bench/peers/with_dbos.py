"""FastAPI and DBOS on PostgreSQL: a web server, `uvicorn with_dbos:api`, and a queue worker, this file."""

import os
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import work
from dbos import DBOS, DBOSClient, DBOSConfig
from fastapi import FastAPI, Header, HTTPException

STORE = os.environ["RACE_STORE"]
QUEUE = "speech"


@DBOS.step()
def synthesize(text: str) -> int:
    """A step, whose result is stored before the workflow continues."""
    assert DBOS.workflow_id is not None
    return work.speak(DBOS.workflow_id, text)


@DBOS.workflow()
def speak(text: str) -> int:
    """The durable workflow of one step."""
    return synthesize(text)


@asynccontextmanager
async def _opened(api: FastAPI) -> AsyncIterator[None]:
    api.state.client = DBOSClient(system_database_url=STORE)
    yield
    api.state.client.destroy()


api = FastAPI(lifespan=_opened)


@api.post("/v1/jobs", status_code=202)
async def submit(
    submission: work.Submission, idempotency_key: Annotated[str | None, Header()] = None
) -> work.Accepted:
    """A workflow's id is its idempotency key: a second request with it makes no second workflow."""
    handle = await api.state.client.enqueue_async(
        {
            "queue_name": QUEUE,
            "workflow_name": speak.__qualname__,
            "workflow_id": idempotency_key or str(uuid.uuid4()),
        },
        submission.parameters.text,
    )
    return work.Accepted(id=handle.get_workflow_id(), state="ENQUEUED")


@api.get("/v1/jobs/{job_id}")
async def show(job_id: str) -> work.Accepted:
    """Its row says it."""
    found = await api.state.client.list_workflows_async(
        workflow_ids=[job_id], load_input=False, load_output=False
    )
    if not found:
        raise HTTPException(404)
    return work.Accepted(id=job_id, state=found[0].status)


def main() -> None:
    """The worker, until it is killed."""
    config: DBOSConfig = {"name": "race", "system_database_url": STORE}
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, worker_concurrency=work.SLOTS)
    threading.Event().wait()


if __name__ == "__main__":
    main()
