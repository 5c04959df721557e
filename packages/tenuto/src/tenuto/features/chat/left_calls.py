"""Priced calls whose process ended before they did."""

from contextlib import suppress
from functools import partial

from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.features.chat import priced_calls as calls
from tenuto.ids import Ids
from tenuto.process.runtime import clock, log


def release_left(settings: Settings, database: Database) -> None:
    """Release what calls hold whose process is gone, if this `serve` is the only process there is."""
    if not settings.database.startswith("sqlite:") or settings.api_processes > 1:
        return
    ids, now_ms = Ids(clock), clock()
    for call in database.read(calls.open_calls):
        release = partial(calls.release, ids=ids, call_id=call.id, now_ms=now_ms)
        # What cannot be released now is left to upkeep: it must not keep the service from starting.
        with suppress(Exception):
            database.write(release)
            log().warning("call.released", call_id=call.id)
