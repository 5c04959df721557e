"""Whether the process is alive, and whether it can take requests."""

import msgspec

from tenuto.api.call import Answer, Call
from tenuto.catalog import operations as catalog
from tenuto.errors import Unavailable

_OK = msgspec.json.encode({"status": "ok"})


async def live(call: Call) -> Answer:
    """GET /livez: the loop runs; touches neither database nor disk."""
    return Answer(200, _OK)


async def ready(call: Call) -> Answer:
    """GET /readyz: the database answers, and on one machine a worker has registered too."""
    service = call.service
    now_ms = service.clock()
    names = list(service.models)
    reasons = await service.database.read_async(lambda tx: catalog.reasons(tx, names, now_ms=now_ms))
    if service.needs_worker and names and not any(reason is None for reason in reasons.values()):
        raise Unavailable("no worker has registered yet")
    return Answer(200, _OK)
