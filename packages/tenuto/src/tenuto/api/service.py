"""What every handler needs, built once by `bootstrap`: database, blobs, catalog, clock, limits."""

from dataclasses import dataclass, field

from tenuto.api.body import HttpLimits
from tenuto.api.fair_threads import FairThreads
from tenuto.api.final_job_cache import FinalJobCache
from tenuto.api.last_use import LastUse
from tenuto.api.long_polling import LongPolls
from tenuto.api.metrics import Metrics
from tenuto.api.rates import Rates
from tenuto.api.shares import Requests
from tenuto.api.upload_stream import Uploads
from tenuto.blobs.blob import BlobStore
from tenuto.catalog.presence import Presence
from tenuto.catalog.rules import Model
from tenuto.chat.chats import Chats
from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.ids import Clock, Ids
from tenuto.jobs.submit import SubmitContext


@dataclass(slots=True)
class Service:
    """The parts of an API process. Made at start, the same until it ends."""

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
    metrics: Metrics
    http: HttpLimits
    uploads: Uploads
    readers: FairThreads
    """They read blobs: half of them at most for one account."""
    reports: FairThreads
    """They add up what an account used, or list all of its money: one at a time for an account."""
    parsers: FairThreads
    """They read large JSON bodies: one at a time for an account."""
    presence: Presence
    """Which workers are away; `bootstrap` has it observe them."""
    needs_worker: bool
    """Whether ready means that a worker has registered too (`serve`), or only the database (`api`)."""
    final_jobs: FinalJobCache = field(default_factory=FinalJobCache)
    used_keys: LastUse = field(default_factory=LastUse)
