"""What an API process knows of the requests to OpenAI's routes: which wait, and which were answered."""

import asyncio
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tenuto.api.limits import FairThreads
from tenuto.api.service import Part, Service

MAX_JOBS = 4096
RETRY_S = 60.0
"""A client that missed its answer retries sooner than this: OpenAI's SDKs wait 8 s at most."""
DECODERS = 2


class OpenRequests(Part):
    """Requests to OpenAI's routes that this process knows of. Used in the event loop's thread only, except
    `was_answered`."""

    def __init__(self) -> None:
        self.process = secrets.token_hex(8)
        """Identifies this API process to the others."""
        self.waiting: Counter[str] = Counter()
        """How many requests wait for each job."""
        self.tasks: set[asyncio.Task[None]] = set()
        """Tasks that continue after their request has finished."""
        self.left: dict[str, asyncio.Task[None]] = {}
        """Jobs that a client has left and none has come back to, and the task that will cancel each."""
        self.decoders = FairThreads(DECODERS, 1, "decoder")
        """Threads that wait for child processes decoding audio; one at a time per account."""
        self._accepting: dict[str, list[asyncio.Future[None]]] = {}
        self._answered: OrderedDict[str, float] = OrderedDict()

    @asynccontextmanager
    async def accepting(self, what: str, *, after_others: bool) -> AsyncIterator[None]:
        """Surrounds the acceptance of a request; `after_others` first waits for earlier ones for `what`."""
        earlier = list(self._accepting.get(what, ()))
        accepted = asyncio.get_running_loop().create_future()
        self._accepting.setdefault(what, []).append(accepted)
        try:
            if after_others and earlier:
                await asyncio.wait(earlier)
            yield
        finally:
            accepted.set_result(None)
            self._accepting[what].remove(accepted)
            if not self._accepting[what]:
                del self._accepting[what]

    def note_answered(self, job_ids: Iterable[str]) -> None:
        """Note that a client was sent these jobs' whole results, which may not have arrived."""
        for job_id in job_ids:
            self._answered[job_id] = time.monotonic()
            if len(self._answered) > MAX_JOBS:
                self._answered.popitem(last=False)

    def was_answered(self, job_id: str) -> bool:
        """Whether the job's whole result was sent so long ago that no retry can refer to it any more."""
        answered_at = self._answered.get(job_id)
        return answered_at is not None and time.monotonic() - answered_at > RETRY_S

    def close(self) -> None:
        self.decoders.close()


def serving(service: Service) -> OpenRequests:
    """What these routes keep in an API process."""
    return OpenRequests()
