"""Forgetting backups whose processes were killed: until they end, condemned bytes are not removed."""

from functools import partial

from tenuto.features.backup import backups
from tenuto.kind.presence import Presence
from tenuto.logs import get_logger
from tenuto.worker.duties import Duty, Turn
from tenuto.worker.watch import Watch

EVERY_S = 60.0

_log = get_logger("tenuto.worker")


def duties(watch: Watch) -> list[Duty]:
    """Each worker has seen for itself which backups have stood still."""
    presence = Presence(away_s=backups.DEAD_AFTER_S, observe_s=EVERY_S)
    return [Duty("backups", partial(forget_dead, presence), EVERY_S)]


def forget_dead(presence: Presence, turn: Turn) -> None:
    """Forget backups whose rows have stopped changing."""
    database = turn.context.database
    rows = database.read(backups.under_way)
    presence.observe(rows, now_s=turn.now)
    for row in rows:
        if row.id in presence.away and database.write(
            partial(backups.forget, backup_id=row.id, seen_at=row.seen_at)
        ):
            _log.warning("backup.forgotten", backup_id=row.id)
