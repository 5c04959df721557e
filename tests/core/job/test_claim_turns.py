"""Turns under concurrency: workers that claim at the same moment serve different accounts."""

from servers.world import World, at_once
from tenuto.job.queue import Claim

ACCOUNTS = 4
ROUNDS = 5


def test_claims_at_one_moment_serve_different_accounts(world: World) -> None:
    """Each of four accounts gets one of four slots, in every round, however the claims meet."""
    world.slots(ACCOUNTS)
    for caller in [world.caller() for _ in range(ACCOUNTS)]:
        for number in range(ROUNDS):
            world.submit(caller, f"key {number}")
    served = []
    for _ in range(ROUNDS):
        claims = _claims(world)
        served.append(len({claim.account_id for claim in claims}))
        for claim in claims:
            world.finish(claim.attempt_id)

    assert [ACCOUNTS] * ROUNDS == served


def test_who_comes_second_for_an_account_serves_another(world: World) -> None:
    """Four claims for four accounts with one job each: none goes away empty."""
    world.slots(ACCOUNTS)
    callers = [world.caller() for _ in range(ACCOUNTS)]
    served = []
    for number in range(ROUNDS):
        for caller in callers:
            world.submit(caller, f"key {number}")
        claims = _claims(world)
        served.append(len(claims))
        for claim in claims:
            world.finish(claim.attempt_id)

    assert [ACCOUNTS] * ROUNDS == served


def _claims(world: World) -> list[Claim]:
    tried = at_once(ACCOUNTS, lambda number: world.claim(f"worker_{number}"))
    return [claim for claim in tried if isinstance(claim, Claim)]
