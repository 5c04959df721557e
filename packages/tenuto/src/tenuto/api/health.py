"""Probes: is the process alive, and can it take requests? On the API's port and on that of the metrics."""

import time
from collections.abc import Callable, Mapping

from tenuto.api.answers import Answer, json_answer
from tenuto.api.call import Call
from tenuto.api.service import Service
from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.kind import operations as catalog

Check = Callable[[], str | None]
"""What is wrong, or None."""
STUCK_S = 20.0
"""An event loop that has not run for this long will not run again."""
_OK = {"status": "ok"}


async def live(call: Call) -> Answer:
    """GET /livez: the loop runs; touches neither database nor disk."""
    return json_answer(200, _OK)


async def ready(call: Call) -> Answer:
    """GET /readyz: the database answers, and under `serve` a worker has registered too."""
    service = call.service
    await service.database.read_async(lambda tx: _check_worker(service, tx))
    return json_answer(200, _OK)


def probes(
    service: Service, *, swept_at: Callable[[], float], is_stopping: Callable[[], bool]
) -> Mapping[str, Check]:
    """The same two for the port of the metrics, where callers' connections are not in the way.

    They are answered by threads of their own, so `/livez` checks whether the event loop still runs:
    `swept_at` gives the monotonic time when it last did.
    """

    def is_live() -> str | None:
        still_s = time.monotonic() - swept_at()
        return f"the event loop has not run for {still_s:.0f} s" if still_s > STUCK_S else None

    def is_ready() -> str | None:
        if is_stopping():
            return "the service is stopping"
        try:
            service.database.read(lambda tx: _check_worker(service, tx))
        except Unavailable as error:
            return error.message
        return None

    return {"/livez": is_live, "/readyz": is_ready}


def _check_worker(service: Service, tx: Transaction) -> None:
    """Unavailable if no worker is there that should be, if the database cannot be read, or if the data folder
    was moved away.
    """
    service.database.check_location()
    service.blobs.check_location()
    away = service.presence.away
    if service.needs_worker and all(worker.id in away for worker in catalog.workers(tx)):
        raise Unavailable("no worker has registered yet")
