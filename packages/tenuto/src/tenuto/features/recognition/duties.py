"""Forgetting the live text of jobs that are final."""

from tenuto.features.recognition import live_text
from tenuto.worker.duties import Duty, Turn
from tenuto.worker.watch import Watch


def duties(watch: Watch) -> list[Duty]:
    """Done by every worker, every minute."""
    return [Duty("context", forget, every_s=60.0)]


def forget(turn: Turn) -> None:
    turn.context.database.write(live_text.forget_final)
