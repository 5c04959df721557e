"""What every route needs, built once by `process.api`: database, blobs, catalog, clock, limits, caches."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from msgspec import Struct, field

from tenuto.account.caller import Caller
from tenuto.api.limits import FairThreads, HttpLimits, Rates, Requests
from tenuto.api.long_polling import LongPolls
from tenuto.api.server import Asgi, Server, make_server
from tenuto.api.uploads import Uploads
from tenuto.config import Settings
from tenuto.db.database import Database, Transaction
from tenuto.errors import Unavailable
from tenuto.file.blob import BlobStore
from tenuto.ids import Clock, Ids
from tenuto.job.read import Job
from tenuto.job.submit import SubmitContext
from tenuto.kind.model import Model
from tenuto.kind.presence import Presence
from tenuto.logs import get_logger, log_failure

MAX_JOBS = 4096
MAX_ANSWER_BYTES = 8 * 1024
KEPT_S = 2.0
"""How long an answer is served from the cache."""
_log = get_logger("tenuto.api")


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

    def keep(self, account_id: str, job: Job, answer: bytes) -> None:
        """Cache the answer about a final job."""
        if len(answer) > MAX_ANSWER_BYTES:
            return
        key, now_s = (account_id, job.id), time.monotonic()
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


class Metrics:
    """What is counted of requests: nothing, unless a feature puts its own in this place."""

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""

    def refused(self, limit: str) -> None:
        """Count an exceeded limit, by its name."""

    def unavailable(self, cause: str) -> None:
        """Count an answer with status 503, by its cause."""

    def damaged(self) -> None:
        """Count an artifact whose bytes are missing or wrong."""


class Part:
    """What a feature keeps in an API process, one for each `Service`."""

    __slots__ = ()

    def open(self, server: Server) -> None:
        """Called once the server is bound, before it accepts; OperatorError ends the process."""

    def start(self) -> None:
        """Called in the event loop, before the first request."""

    def stop(self) -> None:
        """Called from any thread when the process begins to stop."""

    async def end(self) -> None:
        """Called in the event loop, after the last request."""

    def close(self) -> None:
        """Called at the end; it waits for no thread that is still in a transfer."""

    def beyond(self, nothing: Asgi) -> Asgi:
        """What answers the paths that are no routes; `nothing` answers with 404."""
        return nothing

    def around(self, app: Asgi) -> Asgi:
        """The application as it is served."""
        return app


P = TypeVar("P", bound=Part)


class Service(Struct):
    """The parts of an API process, the same from its start to its end."""

    settings: Settings
    database: Database
    blobs: BlobStore
    models: dict[str, Model]
    ids: Ids
    clock: Clock
    rates: Rates
    requests: Requests
    submitting: SubmitContext
    """What `submit` needs: the same database, blobs, models, ids, clock and presence as here."""
    long_polls: LongPolls
    http: HttpLimits
    uploads: Uploads
    readers: FairThreads
    """Threads that read blobs; one account gets at most half of them."""
    reports: FairThreads
    """Threads for reads of many rows, such as an account's usage or ledger; one at a time per account."""
    parsers: FairThreads
    """Threads that parse large JSON bodies; one at a time per account."""
    presence: Presence
    """Which workers are away; `process.api` makes it observe them."""
    needs_worker: bool
    """Whether readiness requires a registered worker (`serve`), or only the database (`api`)."""
    owner: int
    """The process that ends the service by ending: this one, or the `serve` of several."""
    final_jobs: FinalJobCache = field(default_factory=FinalJobCache)
    used_keys: LastUse = field(default_factory=LastUse)
    last_uses: list[tuple[LastUse, Callable[[Transaction, dict[str, int]], None]]] = field(
        default_factory=list
    )
    """What is stored now and then, and how."""
    reasons: dict[str, Callable[[], str | None]] = field(default_factory=dict)
    """For each model that this process runs itself: why it is not callable now, or None."""
    metrics: Metrics = field(default_factory=Metrics)
    is_traced: bool = False
    """Whether jobs are told with the requests that they came from."""
    metrics_port: int = 0
    """Where one of several API processes answers `/metrics` on the loopback; 0: nowhere."""
    make_server: Callable[..., Server] = make_server
    """As in `api.server`."""
    parts: dict[type[Part], Part] = field(default_factory=dict)
    app: Asgi | None = None
    """The application, without what stands around it."""

    @property
    def is_sibling(self) -> bool:
        """Whether this is one of several API processes."""
        return self.owner != os.getpid()

    def each_part(self, step: str) -> None:
        """Let every part stop or close; one that fails keeps no other from it."""
        for part in self.parts.values():
            with self.logged(part, step):
                getattr(part, step)()

    @contextmanager
    def logged(self, part: Part, step: str) -> Iterator[None]:
        """Log what a part's step raises."""
        try:
            yield
        except Exception as error:
            log_failure(_log, "feature.failed", error, feature=type(part).__module__, part=step)

    def part(self, kind: type[P]) -> P:
        """What a feature keeps here, by its class."""
        return cast(P, self.parts[kind])

    def note_use(self) -> None:
        """Store when keys and sessions were last used. Unavailable: the next call tries again."""
        taken = [(use, use.take(), store) for use, store in self.last_uses]

        def note(tx: Transaction) -> None:
            for _, noted, store in taken:
                store(tx, noted)

        if not any(noted for _, noted, _ in taken):
            return
        try:
            self.database.write(note)
        except Unavailable:
            for use, noted, _ in taken:
                use.put_back(noted)
            raise
