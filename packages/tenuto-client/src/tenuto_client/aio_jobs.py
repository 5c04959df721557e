"""A job in the hands of a program that runs on asyncio. Made from `jobs.py`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenuto_client import downloads, following, pacing, reads, results
from tenuto_client.following import OnChange, Preview, SpokenSegment
from tenuto_client.records import Event, Json, Operation
from tenuto_client.steps import OnBytes
from tenuto_client.submission import Reading

if TYPE_CHECKING:
    from tenuto_client.session import AsyncSession


class AsyncJob:
    """One job as it was last read, and operations on it."""

    def __init__(
        self,
        session: AsyncSession,
        reading: Reading,
        journal_file: Path | None = None,
        kind: str | None = None,
    ) -> None:
        self._session = session
        self._reading = reading
        self._journal_file = journal_file
        self._kind = kind
        self._forget_if_final()

    @property
    def id(self) -> str:
        """The operation's id. `client.jobs.get(id)` finds the job again."""
        return self._reading.operation.id

    @property
    def state(self) -> str:
        """`submitting`, `queued`, `running`, or a final state."""
        return self._reading.operation.state

    @property
    def operation(self) -> Operation:
        """The job as the service last reported it."""
        return self._reading.operation

    @property
    def result(self) -> Json | None:
        """What the engine reports about the result; None until the job succeeds."""
        return self._reading.operation.result

    async def refresh(self) -> AsyncJob:
        """Read the job now."""
        self._update(await self._session.run(following.show(self._session.link, self.id)))
        return self

    async def wait(
        self, timeout_s: float = pacing.GIVE_UP_S, *, on_change: OnChange | None = None
    ) -> AsyncJob:
        """Wait until the job has succeeded.

        Raises JobFailed, JobCancelled, RecoveryRequired or UnknownState if it finished in another state, and
        GaveUpWaiting after `timeout_s` seconds (two hours): the job continues and can be waited for again.
        `on_change` is called with the operation after every read.
        """
        flow = following.wait(self._session.link, self._reading, timeout_s=timeout_s, on_change=on_change)
        self._update(await self._session.run(flow))
        following.result_of(self.operation, self._kind)
        return self

    async def download(
        self, path: str | Path, *, form: str | None = None, on_bytes: OnBytes | None = None
    ) -> Path:
        """Wait, then save the result: complete and verified, or not at all. A file of that name is replaced.

        By default it is the artifact, byte for byte. `form` selects another format: mp3, opus, flac or m4a
        (with ffmpeg) for speech, webp or jpeg for an image, txt, srt or vtt for a transcript.

        A failed download is retried; the job is not. Raises what `wait` does, ContentMismatch, AudioError,
        InvalidSetting, OSError.
        """
        artifact = following.result_of(await self._finished(), self._kind)
        kind = self._kind or self.operation.kind or results.kind_of(artifact)
        flow = results.save(
            self._session.link,
            artifact,
            Path(path),
            kind=kind,
            form=form or "",
            job_id=self.id,
            on_bytes=on_bytes,
        )
        await self._session.run(flow)
        return Path(path)

    async def read(self) -> bytes:
        """Wait, then return the bytes of the result, verified."""
        artifact = following.result_of(await self._finished(), self._kind)
        return await self._session.run(downloads.load(self._session.link, artifact))

    async def json(self) -> Any:
        """Wait, then return the parsed result of a recognition job."""
        return json.loads(await self.read())

    async def segments(self) -> AsyncIterator[SpokenSegment]:
        """The preview of a job with `stream=True` while the job runs: each segment once, in order.

        If `starts_over` is true, the job started over: drop what you have queued. The iterator stops after
        the last segment of a finished job; `wait()` says whether it succeeded. Raises GaveUpWaiting after
        two hours.
        """
        preview = Preview(self._reading)
        while not preview.is_over:
            fresh = await self._session.run(following.segments(self._session.link, preview))
            for segment in fresh:
                yield segment
        self._update(preview.reading)

    async def events(self) -> list[Event]:
        """The history of the job so far, oldest first."""
        return await self._session.run(reads.events(self._session.link, self.id))

    async def request(self) -> Any:
        """The request body that was accepted."""
        return await self._session.run(reads.job_request(self._session.link, self.id))

    async def cancel(self) -> AsyncJob:
        """Cancel the job: at once if it is queued, within seconds if it runs; a recorded result wins."""
        self._update(await self._session.run(following.cancel(self._session.link, self.id)))
        return self

    async def erase(self) -> AsyncJob:
        """Permanently erase the input and result of a finished job; its record stays."""
        operation = await self._session.run(reads.erase_job(self._session.link, self.id))
        self._update(Reading(operation))
        return self

    def __repr__(self) -> str:
        return f"<AsyncJob {self.id} {self.state}>"

    async def _finished(self) -> Operation:
        if self.operation.is_pending:
            await self.wait()
        return self.operation

    def _update(self, reading: Reading) -> None:
        self._reading = reading
        self._forget_if_final()

    def _forget_if_final(self) -> None:
        """Drop the journal entry of a finished job: the program knows of it, so no crash can lose it."""
        journal = self._session.link.journal
        if self._journal_file is not None and journal is not None and not self.operation.is_pending:
            journal.forget(self._journal_file)
            self._journal_file = None
