"""Turns under concurrency: workers that claim at the same moment serve different accounts."""

import pytest

from servers.world import World, at_once
from tenuto.job.queue import Claim

ACCOUNTS = 4
ROUNDS = 5


@pytest.mark.parametrize("waiting", [1, 2])
def test_claims_at_one_moment_serve_different_accounts(world: World, waiting: int) -> None:
    """Each of four accounts gets one of four slots in every round, however the claims meet, and however few
    of its jobs wait: none goes away empty.
    """
    world.slots(ACCOUNTS)
    callers = [world.caller() for _ in range(ACCOUNTS)]
    served = []
    for number in range(ROUNDS):
        for caller in callers:
            for more in range(waiting):
                world.submit(caller, f"key {number} {more}")
        claims = _claims(world)
        served.append(len({claim.account_id for claim in claims}))
        for claim in claims:
            world.finish(claim.attempt_id)

    assert [ACCOUNTS] * ROUNDS == served


def _claims(world: World) -> list[Claim]:
    tried = at_once(ACCOUNTS, lambda number: world.claim(f"worker_{number}"))
    return [claim for claim in tried if isinstance(claim, Claim)]
