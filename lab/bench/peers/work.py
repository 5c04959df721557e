"""What all peers share: the body of a request, and the work, which sleeps and notes both of its ends."""

import os
import re
import time

from pydantic import BaseModel, ConfigDict, Field

SLOTS = 8
_SLEEP = re.compile(r"\[fake:sleep=([0-9.]+)\]")


class Parameters(BaseModel):
    """Of a job of speech."""

    model_config = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=100_000)


class Submission(BaseModel):
    """The body of `POST /v1/jobs`."""

    model_config = ConfigDict(extra="forbid")
    model: str = Field(min_length=1, max_length=200)
    parameters: Parameters


class Accepted(BaseModel):
    """The answer to both requests; `state` is the peer's own word."""

    id: str
    state: str


def speak(job_id: str, text: str) -> int:
    """Sleeps for as long as the text says, as Tenuto's fake engine does; gives the number of characters."""
    _note("begin", job_id)
    wait = _SLEEP.search(text)
    if wait:
        time.sleep(float(wait[1]))
    _note("end", job_id)
    return len(text)


def _note(event: str, job_id: str) -> None:
    """One line of the file RACE_JOURNAL, by which the race counts how often a job ran, and when."""
    file = os.open(os.environ["RACE_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{event} {job_id} {time.time():.3f}\n".encode())
    finally:
        os.close(file)
