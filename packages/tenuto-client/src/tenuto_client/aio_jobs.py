"""A job in the hands of a program that runs on asyncio. Made from `jobs.py`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenuto_client import downloads, following, pacing, reads
from tenuto_client.following import OnChange, Preview, SpokenSegment
from tenuto_client.records import Event, Json, Operation
from tenuto_client.steps import OnBytes
from tenuto_client.submission import Reading

if TYPE_CHECKING:
    from tenuto_client.session import AsyncSession


class AsyncJob:
    """One job: what was last heard of it, and what can be done with it."""

    def __init__(
        self, session: AsyncSession, reading: Reading, noted: Path | None = None, kind: str | None = None
    ) -> None:
        self._session = session
        self._reading = reading
        self._noted = noted
        self._kind = kind
        self._forget_when_over()

    @property
    def id(self) -> str:
        """The operation's id: all that is needed to find the job again, `client.jobs.get(id)`."""
        return self._reading.operation.id

    @property
    def state(self) -> str:
        """`submitting`, `queued`, `running`, or one that is final."""
        return self._reading.operation.state

    @property
    def operation(self) -> Operation:
        """All that the service last said."""
        return self._reading.operation

    @property
    def result(self) -> Json | None:
        """What the engine says about the result; None before there is one."""
        return self._reading.operation.result

    async def refresh(self) -> AsyncJob:
        """Read the job now."""
        self._heard(await self._session.run(following.show(self._session.link, self.id)))
        return self

    async def wait(
        self, timeout_s: float = pacing.GIVE_UP_S, *, on_change: OnChange | None = None
    ) -> AsyncJob:
        """Wait until the job has succeeded.

        Raises JobFailed, JobCancelled, RecoveryRequired or UnknownState when it ended in another way, and
        GaveUpWaiting after `timeout_s` seconds (two hours): the job goes on, and waiting again continues.
        `on_change` is told the operation after every look.
        """
        flow = following.wait(self._session.link, self._reading, timeout_s=timeout_s, on_change=on_change)
        self._heard(await self._session.run(flow))
        following.result_of(self.operation, self._kind)
        return self

    async def download(self, path: str | Path, *, on_bytes: OnBytes | None = None) -> Path:
        """Wait, then write the result to a path: all of it, checked, or nothing.

        A download that fails is tried again; the job is not. Raises what `wait` does,
        ContentMismatch, OSError.
        """
        artifact = following.result_of(await self._ended(), self._kind)
        flow = downloads.save(self._session.link, artifact, Path(path), job_id=self.id, on_bytes=on_bytes)
        return await self._session.run(flow)

    async def read(self) -> bytes:
        """Wait, then give the bytes of the result, checked."""
        artifact = following.result_of(await self._ended(), self._kind)
        return await self._session.run(downloads.load(self._session.link, artifact))

    async def json(self) -> Any:
        """Wait, then give the result of a recognition, parsed."""
        return json.loads(await self.read())

    async def segments(self) -> AsyncIterator[SpokenSegment]:
        """The preview of a job with `stream=True`, while it is made: in order, each segment once.

        When `starts_over` is true, drop what you have queued: the job started over. Ends once it is final,
        with the last segment given; it says nothing about how it ended: `wait()` does. Raises GaveUpWaiting
        after two hours.
        """
        preview = Preview(self._reading)
        while not preview.is_over:
            heard = await self._session.run(following.segments(self._session.link, preview))
            for segment in heard:
                yield segment
        self._heard(preview.reading)

    async def events(self) -> list[Event]:
        """What the job went through so far, oldest first."""
        return await self._session.run(reads.events(self._session.link, self.id))

    async def request(self) -> Any:
        """The body that was accepted."""
        return await self._session.run(reads.job_request(self._session.link, self.id))

    async def cancel(self) -> AsyncJob:
        """Ask for its end. Queued, it ends at once; running, within seconds; a recorded result wins."""
        self._heard(await self._session.run(following.cancel(self._session.link, self.id)))
        return self

    async def erase(self) -> AsyncJob:
        """Erase what a job that has ended was asked and what it made, for good; its record stays."""
        operation = await self._session.run(reads.erase_job(self._session.link, self.id))
        self._heard(Reading(operation))
        return self

    def __repr__(self) -> str:
        return f"<AsyncJob {self.id} {self.state}>"

    async def _ended(self) -> Operation:
        if self.operation.is_pending:
            await self.wait()
        return self.operation

    def _heard(self, reading: Reading) -> None:
        self._reading = reading
        self._forget_when_over()

    def _forget_when_over(self) -> None:
        """The program has seen the end, so no crash can lose the job any more."""
        journal = self._session.link.journal
        if self._noted is not None and journal is not None and not self.operation.is_pending:
            journal.forget(self._noted)
            self._noted = None
