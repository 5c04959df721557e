"""What every route needs, built once by `bootstrap`: database, blobs, catalog, clock, limits, caches."""

import asyncio
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from msgspec import Struct, field

from tenuto.account.caller import Caller
from tenuto.api.limits import FairThreads, HttpLimits, Rates, Requests
from tenuto.api.long_polling import LongPolls
from tenuto.api.uploads import Uploads
from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.features.chat.chats import Chats
from tenuto.features.events.live_events import LiveEvents
from tenuto.features.renditions.scratch import Scratch
from tenuto.features.telemetry.api_metrics import Metrics
from tenuto.file.blob import BlobStore
from tenuto.ids import Clock, Ids
from tenuto.job.read import Operation
from tenuto.job.submit import SubmitContext
from tenuto.kind.presence import Presence
from tenuto.kind.rules import Model

MAX_JOBS = 4096
MAX_ANSWER_BYTES = 8 * 1024
RETRY_S = 60.0
"""A client that missed its answer retries sooner than this: OpenAI's SDKs wait 8 s at most."""
KEPT_S = 2.0
"""How long an answer is served from the cache."""


class FinalJobCache:
    """Answers about final jobs, by account and job: reading one again costs only a look at the key.

    A final state never changes, but a job's content can be erased, and its title with it: this process then
    drops the answer at once, and other processes, which are not notified, within `KEPT_S`. Answers that are
    older than that are dropped with the next one; their number and size are bounded, too. Thread-safe.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], tuple[bytes, float]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, caller: Caller, job_id: str) -> bytes | None:
        """The cached answer, or None."""
        with self._lock:
            answer, until = self._answers.get((caller.account_id, job_id), (b"", 0.0))
        return answer if time.monotonic() <= until else None

    def keep(self, account_id: str, operation: Operation, answer: bytes) -> None:
        """Cache the answer about a final job."""
        if len(answer) > MAX_ANSWER_BYTES:
            return
        key, now_s = (account_id, operation.id), time.monotonic()
        with self._lock:
            self._answers.pop(key, None)
            self._answers[key] = (answer, now_s + KEPT_S)
            while len(self._answers) > MAX_JOBS or next(iter(self._answers.values()))[1] < now_s:
                self._answers.popitem(last=False)

    def forget(self, account_id: str, job_id: str) -> None:
        """Drop the answer: the job's content was erased."""
        with self._lock:
            self._answers.pop((account_id, job_id), None)


class LastUse:
    """When keys and sessions were last used, in ms by their id or digest, collected here until stored.

    Thread-safe: requests are admitted in the event loop on SQLite and in the database's threads on
    PostgreSQL, and another thread stores what was collected. What is not stored yet is lost with the process.
    """

    def __init__(self) -> None:
        self._at_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def note(self, used: str, at_ms: int) -> None:
        """Note that it was used at this time."""
        with self._lock:
            self._at_ms[used] = at_ms

    def get(self, used: str) -> int | None:
        """The time of its last use, unless that is stored already."""
        with self._lock:
            return self._at_ms.get(used)

    def forget(self, used: str) -> None:
        """Forget its use: it has ended, so there is nothing to store."""
        with self._lock:
            self._at_ms.pop(used, None)

    def take(self) -> dict[str, int]:
        """Remove and return everything collected, so that the caller can store it."""
        with self._lock:
            taken, self._at_ms = self._at_ms, {}
        return taken

    def put_back(self, taken: dict[str, int]) -> None:
        """Take back what could not be stored, except where a newer use was noted since."""
        with self._lock:
            self._at_ms = taken | self._at_ms


class OpenRequests:
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


class Service(Struct):
    """The parts of an API process, the same from its start to its end."""

    settings: Settings
    database: Database
    blobs: BlobStore
    models: dict[str, Model]
    chats: Chats
    ids: Ids
    clock: Clock
    rates: Rates
    requests: Requests
    submitting: SubmitContext
    """What `submit` needs: the same database, blobs, models, ids, clock and presence as here."""
    long_polls: LongPolls
    live_events: LiveEvents
    metrics: Metrics
    http: HttpLimits
    uploads: Uploads
    readers: FairThreads
    """Threads that read blobs; one account gets at most half of them."""
    reports: FairThreads
    """Threads for reads of many rows, such as an account's usage or ledger; one at a time per account."""
    renderers: FairThreads
    """Threads that make renditions; one at a time per account."""
    decoders: FairThreads
    """Threads that wait for child processes decoding audio; one at a time per account."""
    parsers: FairThreads
    """Threads that parse large JSON bodies; one at a time per account."""
    scratch: Scratch
    """Files made for one request, kept while they are sent."""
    presence: Presence
    """Which workers are away; `bootstrap` makes it observe them."""
    needs_worker: bool
    """Whether readiness requires a registered worker (`serve`), or only the database (`api`)."""
    final_jobs: FinalJobCache = field(default_factory=FinalJobCache)
    used_keys: LastUse = field(default_factory=LastUse)
    openai: OpenRequests = field(default_factory=OpenRequests)
