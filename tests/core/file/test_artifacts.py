"""Artifacts for their own account only, and the sweep of bytes that nothing refers to."""

import pytest

from servers.world import World
from tenuto.db.database import Transaction
from tenuto.errors import Erased, NotFound, Swept
from tenuto.file import erasure
from tenuto.file import operations as artifacts
from tenuto.file.erasure import Patience
from tenuto.file.operations import ORPHAN_AGE_MS, Opened


def test_an_artifact_is_opened_by_its_account(world: World) -> None:
    """With the record that its bytes are checked by."""
    claim, result = world.running(), world.result()
    world.record(claim.attempt_id, result)
    world.succeed(claim.attempt_id)
    artifact_id = world.operation(claim.account_id, claim.job_id).artifacts[0].id

    assert Opened(artifact_id, "audio/wav", result.blob) == open_it(world, claim.account_id, artifact_id)


def test_other_accounts_artifacts_do_not_exist(world: World) -> None:
    """A foreign id answers like one that was never given (P12)."""
    claim = world.running()
    world.finish(claim.attempt_id)
    artifact_id = world.operation(claim.account_id, claim.job_id).artifacts[0].id
    other = world.caller().account_id
    messages = set()
    for wrong in (artifact_id, "artifact_0"):
        with pytest.raises(NotFound) as caught:
            open_it(world, other, wrong)
        messages.add(str(caught.value))

    assert 1 == len(messages)


def test_erased_bytes_are_gone(world: World) -> None:
    """The record stays and says so."""
    claim = world.running()
    world.finish(claim.attempt_id)
    world.run("update artifact set erased_at = 1, blob_id = null")
    artifact_id = world.operation(claim.account_id, claim.job_id).artifacts[0].id

    with pytest.raises(Erased):
        open_it(world, claim.account_id, artifact_id)


def test_the_sweep_takes_old_orphans_in_three_steps(world: World) -> None:
    """Condemned, then the bytes go, then the row; each step may be repeated."""
    blob_id = add(world)
    world.now_ms += ORPHAN_AGE_MS
    assert [0, []] == [condemn(world), condemned(world)]
    world.now_ms += 1

    assert [1, 0] == [condemn(world), condemn(world)]
    assert [blob_id] == condemned(world)
    assert known(world, blob_id)
    assert world.read(lambda tx: artifacts.blob_record(tx, blob_id)) is None
    for _ in range(2):
        world.write(lambda tx: artifacts.forget_condemned(tx, [blob_id]))
    assert not known(world, blob_id)


def test_the_sweep_leaves_what_is_referred_to(world: World) -> None:
    """Results, recorded results, and results that an operator may still use; however old."""
    done, recorded = world.running(), None
    world.finish(done.attempt_id)
    recorded = world.running()
    world.record(recorded.attempt_id)
    world.now_ms += 100 * ORPHAN_AGE_MS
    before = world.everything()

    assert 0 == condemn(world)
    assert before == world.everything()
    world.succeed(recorded.attempt_id)


def test_only_condemned_rows_are_forgotten(world: World) -> None:
    """A mistake of the sweep's takes no row that is in use."""
    blob_id = add(world)
    world.write(lambda tx: artifacts.forget_condemned(tx, [blob_id]))

    assert known(world, blob_id)


def test_bytes_without_a_row_are_condemned_too(world: World) -> None:
    """Their writer died; a row stands for them, so that its late commit is refused."""
    record, in_use = world.blob(), add(world)
    count = world.write(
        lambda tx: artifacts.condemn_rowless(tx, [record.blob_id, in_use], now_ms=world.now_ms)
    )

    assert (1, [record.blob_id]) == (count, condemned(world))
    with pytest.raises(Swept):
        world.write(lambda tx: artifacts.add_blob(tx, record, now_ms=world.now_ms))


def test_swept_bytes_are_never_recorded(world: World) -> None:
    """However late their writer comes: a mark stays when bytes and condemnation are gone (P5). Bytes that it
    writes once more under that id are swept once more.
    """
    record = world.blob()

    def sweep(tx: Transaction) -> int:
        return artifacts.condemn_rowless(tx, [record.blob_id], now_ms=world.now_ms)

    world.write(sweep)
    world.write(lambda tx: artifacts.forget_condemned(tx, [record.blob_id]))
    gone = known(world, record.blob_id), condemned(world)
    with pytest.raises(Swept):
        world.write(lambda tx: artifacts.add_blob(tx, record, now_ms=world.now_ms))
    again = world.write(sweep), condemned(world), world.write(sweep)

    assert (False, []) == gone
    assert (1, [record.blob_id], 0) == again


def test_a_record_is_written_once(world: World) -> None:
    """No row of a blob is ever overwritten (P7)."""
    record = world.blob()
    world.write(lambda tx: artifacts.add_blob(tx, record, now_ms=world.now_ms))
    before = world.everything()
    with pytest.raises(AssertionError):
        world.write(lambda tx: artifacts.add_blob(tx, record, now_ms=world.now_ms))

    assert before == world.everything()
    assert record == world.read(lambda tx: artifacts.blob_record(tx, record.blob_id))


def test_the_recorded_bytes_of_an_attempt(world: World) -> None:
    """What a rescuer verifies; none before they are recorded, none once they are condemned."""
    claim, result = world.running(), world.result()

    assert world.read(lambda tx: artifacts.recorded_blob(tx, claim.attempt_id)) is None
    world.record(claim.attempt_id, result)
    assert result.blob == world.read(lambda tx: artifacts.recorded_blob(tx, claim.attempt_id))
    world.run("update blob set condemned_at = 1")
    assert world.read(lambda tx: artifacts.recorded_blob(tx, claim.attempt_id)) is None
    world.run("update blob set condemned_at = null")


@pytest.mark.parametrize(("left_s", "tries_all"), [(None, True), (0.5, True), (-1.0, False)])
def test_what_cannot_be_removed_is_named(world: World, left_s: float | None, tries_all: bool) -> None:
    """The others are removed all the same, unless earlier failures have used up the patience."""
    stuck, other = (world.blobs.write(world.ids.new("blob"), b"sound").blob_id for _ in range(2))
    place = world.folder / "blobs" / stuck[-2:] / stuck
    place.unlink()
    place.mkdir()
    patience = None if left_s is None else Patience()
    if patience is not None and left_s is not None:
        patience.left_s = left_s
    left = erasure.remove(world.database, world.blobs, [stuck, other], patience)

    assert ([stuck] if tries_all else [stuck, other]) == left
    assert tries_all != (world.folder / "blobs" / other[-2:] / other).exists()


def test_nothing_is_removed_during_a_backup(world: World) -> None:
    """It may have seen the row, and still has to copy the bytes (P5)."""
    record = world.blobs.write(world.ids.new("blob"), b"sound")
    world.run("insert into backup (id, started_at, seen_at) values ('backup', 1, 1)")

    assert [] == erasure.remove(world.database, world.blobs, [record.blob_id])
    assert b"sound" == world.blobs.read_all(record)
    world.run("delete from backup")


def add(world: World) -> str:
    """A blob that nothing refers to."""
    record = world.blob()
    world.write(lambda tx: artifacts.add_blob(tx, record, now_ms=world.now_ms))
    return record.blob_id


def open_it(world: World, account_id: str, artifact_id: str) -> Opened:
    return world.read(lambda tx: artifacts.open_artifact(tx, account_id=account_id, artifact_id=artifact_id))


def condemn(world: World) -> int:
    return world.write(lambda tx: artifacts.condemn_orphans(tx, now_ms=world.now_ms))


def condemned(world: World) -> list[str]:
    return world.read(artifacts.condemned)


def known(world: World, blob_id: str) -> bool:
    return world.read(lambda tx: artifacts.is_known(tx, blob_id))
