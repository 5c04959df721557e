"""Who may erase what, and when: the content of jobs that have ended, results and inputs."""

import pytest

from servers.world import METERED, SPEECH, World
from tenuto.account.caller import Caller
from tenuto.db.database import Transaction
from tenuto.errors import InvalidRequest, ModelNotAllowed
from tenuto.file import inputs
from tenuto.job import erasure
from tenuto.media.flac import FlacSummary


def test_what_has_not_ended_is_not_erased(world: World) -> None:
    """Its request is still needed; nothing changes."""
    claim = world.running()
    caller = Caller("key", claim.account_id, None, None)
    before = world.everything()
    with pytest.raises(InvalidRequest, match="the job is running"):
        world.write(lambda tx: erasure.erase_content(tx, caller, job_id=claim.job_id, now_ms=world.now_ms))

    assert before == world.everything()


def test_a_restricted_key_erases_what_is_of_its_models(world: World) -> None:
    """A result of one of them, and an input if one takes inputs; a key that is not restricted erases all
    (P13).
    """
    claim = world.running()
    world.finish(claim.attempt_id)
    result = world.operation(claim.account_id, claim.job_id).artifacts[0].id
    sent = world.write(lambda tx: add_input(tx, world, claim.account_id))

    def erase(artifact_id: str, *models: str) -> list[str]:
        caller = Caller("key", claim.account_id, None, frozenset(models) or None)
        return world.write(
            lambda tx: erasure.erase_artifact(
                tx, caller, artifact_id=artifact_id, input_models={METERED}, now_ms=world.now_ms
            )
        )

    for artifact_id, model in ((result, METERED), (sent, SPEECH)):
        with pytest.raises(ModelNotAllowed):
            erase(artifact_id, model)
    assert [1, 1] == [len(erase(result, SPEECH)), len(erase(sent))]


def add_input(tx: Transaction, world: World, account_id: str) -> str:
    """An upload of a second."""
    return inputs.add_input(
        tx,
        world.ids,
        account_id=account_id,
        media_type="audio/flac",
        blob=world.blob(),
        summary=FlacSummary(16_000, 1, 16_000),
        now_ms=world.now_ms,
    )
