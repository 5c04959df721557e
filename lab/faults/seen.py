"""What clients may see: each reading of a job after the last one, and what all clients know together."""

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from lab.faults.works import Media, Work

from servers.service import FINAL
from tenuto.job.states import MAX_HOSTS_LOST


class Book:
    """What all clients of a campaign know together: the bytes of each group, and foreign ids to ask for."""

    def __init__(self, media: Media) -> None:
        self.media = media
        self._lock = threading.Lock()
        self._bytes: dict[str, str] = {}
        self._ids: dict[str, list[tuple[str, str]]] = {}
        self._host_kills: list[float] = []
        self.wanted = ""
        """The place that a fault waits for somebody to pass: clients do more of what leads there."""

    def host_killed(self) -> None:
        """An engine's process was killed just now."""
        self._host_kills.append(time.monotonic())

    def hosts_killed(self, since: float) -> int:
        """How many, since this moment of the monotonic clock."""
        return sum(moment >= since for moment in self._host_kills)

    def agree(self, group: str, sha256: str) -> bool:
        """Whether these bytes are those that the group had before."""
        with self._lock:
            return not group or self._bytes.setdefault(group, sha256) == sha256

    def digests(self) -> dict[str, str]:
        """The SHA-256 of each group so far."""
        with self._lock:
            return dict(self._bytes)

    def publish(self, account: str, path: str) -> None:
        with self._lock:
            self._ids.setdefault(account, []).append((account, path))

    def foreign(self, account: str, dice: random.Random) -> str | None:
        """A path of another account."""
        with self._lock:
            others = [each for owner, each in self._ids.items() if owner != account]
            return None if not others else dice.choice(dice.choice(others))[1]

    def forget_ids(self) -> None:
        """A new life has other ids."""
        self._ids.clear()


def see(work: Work, operation: dict[str, Any], *, hosts_killed: int = 0) -> Iterator[str]:
    """Note a look at a job; gives what may not be. `hosts_killed`: by the campaign, since it was accepted."""
    state, attempt, before = operation["state"], operation["attempt"], work.operation.get("state")
    # Queued comes after the attempt that was lost, and before the next one.
    place = (attempt, 2) if state in FINAL else (attempt, int(state == "queued"))
    was_final = work.place[1] == 2 and before != "recovery_required"
    if (before != "recovery_required" and place < work.place) or (was_final and operation != work.operation):
        yield f"P8: went back from {work.operation} to {operation}"
    if before != state and not _may_be(work, operation, hosts_killed):
        yield f"ended badly: {work.body} {operation}"
    work.place, work.operation = place, operation


def _may_be(work: Work, operation: dict[str, Any], hosts_killed: int) -> bool:
    """Whether this work may be in such a state: a job fails by its own text, or when its engine died under it
    three times, and by nothing else that happens to a machine.
    """
    code = (operation["error"] or {}).get("code")
    has_crashed = code == "engine_crashed" and hosts_killed >= MAX_HOSTS_LOST
    return {
        "succeeded": not work.must_fail and len(operation["artifacts"]) == 1,
        "failed": code in work.codes or has_crashed or (work.is_metered and code == "engine_failed"),
        "cancelled": work.cancelled,
        "recovery_required": work.is_metered,
    }.get(operation["state"], True)
