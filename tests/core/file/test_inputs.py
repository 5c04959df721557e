"""Uploads as records: what a job is bound to, and what a damaged record costs."""

import pytest

from servers.world import World
from tenuto.account.caller import Caller
from tenuto.db.database import Transaction
from tenuto.errors import ArtifactUnavailable
from tenuto.file import inputs
from tenuto.file.inputs import Bound
from tenuto.media.flac import FlacSummary

FLAC = "audio/flac"


def test_a_job_is_bound_to_what_was_measured(world: World) -> None:
    """Length, rate and channels are those of the admission."""
    caller = world.caller()
    input_id = upload(world, caller)
    bound = bind(world, caller, input_id)

    assert bound is not None
    assert (input_id, 10_000, 16_000, 1) == (
        bound.artifact_id,
        bound.duration_ms,
        bound.sample_rate,
        bound.channels,
    )


@pytest.mark.parametrize("damage", ['{"duration_ms": 10', "[]", '{"duration_ms": "long"}'])
def test_a_damaged_record_is_shown_and_no_job_is_made_of_it(world: World, damage: str) -> None:
    """The caller sees the rest of it; another upload is used as ever."""
    caller = world.caller()
    broken, whole = upload(world, caller), upload(world, caller)
    world.run("update artifact set metadata = :damage where id = :id", damage=damage, id=broken)
    shown = world.read(lambda tx: inputs.get_input(tx, account_id=caller.account_id, artifact_id=broken))
    with pytest.raises(ArtifactUnavailable):
        bind(world, caller, broken)

    assert (broken, FLAC) == (shown.id, shown.media_type)
    assert bind(world, caller, whole) is not None


def upload(world: World, caller: Caller) -> str:
    """An upload of ten seconds; gives its id."""
    blob = world.blob()

    def add(tx: Transaction) -> str:
        return inputs.add_input(
            tx,
            world.ids,
            account_id=caller.account_id,
            media_type=FLAC,
            blob=blob,
            summary=FlacSummary(16_000, 1, 160_000),
            now_ms=world.now_ms,
        )

    return world.write(add)


def bind(world: World, caller: Caller, artifact_id: str) -> Bound | None:
    return world.write(
        lambda tx: inputs.bind_input(
            tx, account_id=caller.account_id, artifact_id=artifact_id, media_type=FLAC
        )
    )
