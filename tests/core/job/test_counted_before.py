"""A database that an earlier version leaves: what it counted of its jobs."""

from pathlib import Path

from servers.world import World
from tenuto.db.database import Database
from tenuto.db.migrations import migrate, shipped
from tenuto.job.states import UNFORESEEN

LAST = "0023_kept_results"


def test_errors_counted_with_lost_hosts_are_told_apart(empty_database: Database, tmp_path: Path) -> None:
    """A job that runs meanwhile has neither more tries nor fewer; one that has ended stays as it is (P21)."""
    migrate(empty_database, only=frozenset(each.name for each in shipped() if each.name <= LAST))
    world = World(empty_database, tmp_path)
    world.open(3)
    twice, once, ended = (counted_before(world, errors) for errors in (2, 1, 2))
    world.run("update job set state = 'failed' where id = :id", id=ended[0])
    migrate(empty_database)
    moved = [counted(world, job_id) for job_id, _ in (twice, once, ended)]
    for _, attempt_id in (twice, once):
        world.unforeseen(attempt_id)

    assert [(0, 2), (1, 1), (2, 0)] == moved
    assert ["recovery_required", "queued"] == [world.state(job_id) for job_id, _ in (twice, once)]
    assert (1, 2) == counted(world, once[0])


def counted_before(world: World, errors: int) -> tuple[str, str]:
    """A running job and its attempt; it has lost two before, so many of them to unforeseen errors."""
    claim = world.running()
    world.run("update job set hosts_lost = 2, event_sequence = 9 where id = :id", id=claim.job_id)
    for sequence in range(errors):
        world.run(
            "insert into event (job_id, sequence, type, detail, at) values (:id, :n, 'released', :why, 1)",
            id=claim.job_id,
            n=5 + sequence,
            why=UNFORESEEN,
        )
    return claim.job_id, claim.attempt_id


def counted(world: World, job_id: str) -> tuple[int, int]:
    job = world.job(job_id)
    return job["hosts_lost"], job["unforeseen_errors"]
