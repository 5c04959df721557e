"""Whether an input may be erased, while the jobs that have it go from state to state."""

from typing import Any

import pytest

from servers.world import World
from tenuto.db.database import Row, Transaction
from tenuto.job import jobs_sql


class Interrupted:
    """A transaction that is overtaken: after its first look another one does `meanwhile`, and commits."""

    def __init__(self, tx: Transaction, meanwhile: Any) -> None:
        self._tx = tx
        self._meanwhile = meanwhile

    def one(self, sql: str, /, **parameters: Any) -> Row | None:
        row = self._tx.one(sql, **parameters)
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return row


@pytest.mark.parametrize("begins", ["running", "queued"])
def test_the_input_of_a_job_that_changes_its_state_is_needed_all_the_time(world: World, begins: str) -> None:
    """A job that is claimed or given back while somebody looks for it is found: its input is not erased."""
    claim = world.running()
    if begins == "queued":
        world.release(claim.attempt_id)
    artifact_id = world.ids.new("artifact")
    named = f'["{artifact_id}"]'
    world.write(
        lambda tx: tx.run(
            "update job set input_artifact_ids = :named where id = :id", named=named, id=claim.job_id
        )
    )
    account_id = world.job(claim.job_id)["account_id"]

    def meanwhile() -> None:
        if begins == "running":
            world.release(claim.attempt_id)
        else:
            assert world.claim() is not None

    def look(tx: Transaction) -> bool:
        overtaken: Any = Interrupted(tx, meanwhile)
        return jobs_sql.is_needed(overtaken, account_id, f'["{artifact_id}"]')

    def forget(tx: Transaction) -> None:
        tx.run("update job set input_artifact_ids = '[]' where id = :id", id=claim.job_id)

    assert world.read(look)
    world.write(forget)
    assert not world.read(lambda tx: jobs_sql.is_needed(tx, account_id, f'["{artifact_id}"]'))
