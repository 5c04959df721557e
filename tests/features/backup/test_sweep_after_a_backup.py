"""What the sweep keeps for a backup, and when it forgets one."""

import pytest

from servers.rig import Rig
from servers.speed import HANG_S
from servers.world import World
from tenuto.features.backup import backups
from tenuto.file import erasure
from tenuto.file import operations as artifacts
from tenuto.worker import sweep
from tenuto.worker.duties import Upkeep

MINUTE_MS = 60_000


def rounds(upkeep: Upkeep, start: float, end: float, step: float = 5.0) -> None:
    """Rounds from `start` to `end` monotonic seconds, both included."""
    now = start
    while now < end:
        upkeep.do_due(now)
        now += step
    upkeep.do_due(end)


def test_all_that_was_erased_during_a_backup_is_removed_after_it(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a batch a minute: with retention, a long backup may hold back a hundred thousand blobs."""
    for module in (artifacts, sweep):
        monkeypatch.setattr(module, "SWEEP_BATCH", 20)
    world.write(lambda tx: backups.begin(tx, "backup_long", now_ms=world.now_ms))
    written = [rig.context.blobs.write(world.ids.new("blob"), b"erased") for _ in range(45)]
    for blob in written:
        world.write(lambda tx, blob=blob: artifacts.add_blob(tx, blob, now_ms=world.now_ms))  # type: ignore[misc]
    erased = [blob.blob_id for blob in written]
    world.write(lambda tx: erasure.condemn(tx, erased, now_ms=world.now_ms))
    upkeep = rig.upkeep()
    swept(upkeep, 0.0)
    during = there(rig)
    world.write(lambda tx: backups.end(tx, "backup_long"))
    swept(upkeep, 60.0)

    assert (set(erased), set()) == (during, there(rig))


def swept(upkeep: Upkeep, now: float) -> None:
    """One round, and the end of the sweep that it began."""
    upkeep.do_due(now)
    upkeep.threads["sweep"].join(HANG_S)
    assert not upkeep.threads["sweep"].is_running()


def there(rig: Rig) -> set[str]:
    """The blobs whose bytes lie in the folder."""
    return {*rig.context.blobs.ids(older_than_ms=2**62 // 10**6)}


@pytest.mark.parametrize("skew_ms", [-20 * MINUTE_MS, 20 * MINUTE_MS], ids=["behind", "ahead"])
def test_a_backup_is_forgotten_when_it_stands_still_and_not_by_the_clock(
    world: World, rig: Rig, skew_ms: int
) -> None:
    """A backup of a machine whose clock differs goes on as long as it beats; killed, it holds removals back
    for ten minutes that upkeep has itself counted (P20, P21).
    """

    def beats() -> bool:
        world.now_ms += MINUTE_MS
        return world.write(lambda tx: backups.see(tx, "backup_1", now_ms=world.now_ms + skew_ms))

    world.write(lambda tx: backups.begin(tx, "backup_1", now_ms=world.now_ms + skew_ms))
    upkeep, still_there = rig.upkeep(), []
    for minute in range(30):
        upkeep.do_due(minute * 60.0)
        still_there.append(beats())
    rounds(upkeep, 1800.0, 1800.0 + backups.DEAD_AFTER_S - 1, 60.0)
    shortly_before = bool(world.read(backups.under_way))
    rounds(upkeep, 1800.0 + backups.DEAD_AFTER_S, 1920.0 + backups.DEAD_AFTER_S, 60.0)

    assert [True] * 30 == still_there
    assert (True, False) == (shortly_before, bool(world.read(backups.under_way)))
