"""Releasing priced calls whose processes died."""

from functools import partial

from tenuto.features.chat import priced_calls
from tenuto.features.chat.settings import ChatSettings
from tenuto.kind.presence import Presence
from tenuto.logs import get_logger
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import Duty, Turn
from tenuto.worker.watch import Watch

CALLS_S = 5.0
ABANDONED_CALL_S = 30.0
"""A call that is still open this long after its time limit has lost its process."""

_log = get_logger("tenuto.worker")


def duties(watch: Watch) -> list[Duty]:
    """Each worker has seen for itself which calls are still open."""
    presence = Presence(
        away_s=watch.settings.of(ChatSettings).chat_timeout_s + ABANDONED_CALL_S, observe_s=CALLS_S
    )
    return [Duty("calls", partial(release_abandoned, presence), CALLS_S)]


def release_abandoned(presence: Presence, turn: Turn) -> None:
    """Release calls that have been open for longer than any lasts."""
    rows = turn.context.database.read(priced_calls.open_calls)
    presence.observe(rows, now_s=turn.now)
    for row in rows:
        if row.id in presence.away:
            turn.do("call", partial(_release, turn.context, row.id), call_id=row.id)


def _release(context: WorkerContext, call_id: str) -> None:
    now_ms = context.clock()
    if context.database.write(lambda tx: priced_calls.release(tx, context.ids, call_id, now_ms=now_ms)):
        _log.warning("call.released", call_id=call_id)
