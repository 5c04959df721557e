"""Pages of an account's events, between those of others."""

from functools import partial

import pytest

from servers.world import World
from tenuto.db.database import Transaction
from tenuto.features.events import feed, feed_store


def test_no_page_repeats_an_event_beside_one_of_another_account(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may be of one commit, and a page may end between them; the other's id is not shown."""
    callers = world.caller(), world.caller()
    (own_job, caller), (other_job, _) = sorted((world.submit(one, "key").job_id, one) for one in callers)
    last_job = world.submit(caller, "last").job_id
    for position, job_id in ((1, own_job), (1, other_job), (2, last_job)):
        world.write(partial(_place, job_id=job_id, position=position))
    monkeypatch.setattr(feed_store, "PASSED_AT_ONCE", 1)
    mark, end = feed.START, world.read(feed.end)
    seen: list[str] = []
    marks: list[feed.Position] = []
    for _ in range(3):
        events, ahead = world.read(
            partial(feed.of_account, account_id=caller.account_id, mark=mark, until=end)
        )
        seen += [event.job_id for event in events]
        mark = feed.reader_position(events, ahead)
        marks.append(mark)
        if ahead == end:
            break

    assert [own_job, last_job] == seen
    assert other_job not in {mark.job_id for mark in marks}


def _place(tx: Transaction, job_id: str, position: int) -> None:
    tx.run("update event set position = :position where job_id = :id", position=position, id=job_id)
