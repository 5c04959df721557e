"""What every handler needs, built once by `bootstrap`: database, blobs, catalog, clock, limits."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tenuto.api.body import HttpLimits
from tenuto.api.finals import Finals
from tenuto.api.intake import Uploads
from tenuto.api.metrics import Metrics
from tenuto.api.rates import Rates
from tenuto.api.rooms import Rooms
from tenuto.api.waits import Waits
from tenuto.blobs.blob import BlobStore
from tenuto.catalog.rules import Model
from tenuto.chat.chats import Chats
from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.ids import Clock, Ids


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
    rooms: Rooms
    waits: Waits
    metrics: Metrics
    http: HttpLimits
    uploads: Uploads
    readers: ThreadPoolExecutor
    """Threads that read blobs."""
    needs_worker: bool
    """Whether ready means that a worker has registered too (`serve`), or only the database (`api`)."""
    finals: Finals = field(default_factory=Finals)
    used_keys: dict[str, int] = field(default_factory=dict)
    """When keys were last used, until the next flush; lost with the process, which nobody minds."""
