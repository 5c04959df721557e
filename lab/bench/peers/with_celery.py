"""FastAPI and Celery on Redis: `uvicorn with_celery:api`, `celery -A with_celery worker`."""

import os

import work
from celery import Celery, Task
from fastapi import FastAPI

app = Celery("with_celery", broker=os.environ["RACE_STORE"], backend=os.environ["RACE_STORE"])
app.conf.update(
    # What the documentation asks for where a task may run twice but must not be lost with its worker.
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_track_started=True,
    worker_prefetch_multiplier=1,
    # For as long as a killed worker's tasks are held back. Celery's default is an hour.
    broker_transport_options={"visibility_timeout": int(os.environ.get("RACE_VISIBILITY_S", "3600"))},
)


@app.task(bind=True)
def speak(self: Task, text: str) -> int:
    """The work."""
    return work.speak(self.request.id, text)


api = FastAPI()


@api.post("/v1/jobs", status_code=202)
def submit(submission: work.Submission) -> work.Accepted:
    """The message is in Redis when `delay` returns; it blocks, so FastAPI calls this in a thread."""
    task = speak.delay(submission.parameters.text)
    return work.Accepted(id=task.id, state="PENDING")


@api.get("/v1/jobs/{job_id}")
def show(job_id: str) -> work.Accepted:
    """Celery says PENDING of all that no worker has begun, and of what it has never seen."""
    return work.Accepted(id=job_id, state=app.AsyncResult(job_id).state)
