"""FastAPI and Procrastinate on PostgreSQL: `uvicorn with_procrastinate:api`, `procrastinate worker`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import work
from fastapi import FastAPI
from procrastinate import App, JobContext, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ["RACE_STORE"]))


@app.task(pass_context=True)
def speak(context: JobContext, text: str) -> int:
    """A plain function, which the worker runs in a thread, as it would run a model."""
    return work.speak(str(context.job.id), text)


@app.periodic(cron="* * * * *")
@app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
async def retry_stalled_jobs(context: JobContext, timestamp: int) -> None:
    """As documented, but each minute: what a killed worker had begun is run again."""
    for job in await app.job_manager.get_stalled_jobs():
        await app.job_manager.retry_job(job)


@asynccontextmanager
async def _opened(_: FastAPI) -> AsyncIterator[None]:
    async with app.open_async():
        yield


api = FastAPI(lifespan=_opened)


@api.post("/v1/jobs", status_code=202)
async def submit(submission: work.Submission) -> work.Accepted:
    """The job is committed when the task has been deferred."""
    number = await speak.defer_async(text=submission.parameters.text)
    return work.Accepted(id=str(number), state="todo")


@api.get("/v1/jobs/{job_id}")
async def show(job_id: int) -> work.Accepted:
    """Its row says it."""
    status = await app.job_manager.get_job_status_async(job_id)
    return work.Accepted(id=str(job_id), state=status.value)
