"""Four processes claim at once: the lane's slots hold, and accounts take turns."""

import pytest
from lab.cluster.claims import ACCOUNTS, race

CLAIMS = 5_000
"""Fewer differ by more than a tenth of a share by chance. `make cluster` makes 100,000."""


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_a_lane_is_never_over_its_slots(database_url: str) -> None:
    """So many claims by four processes on three slots: never a fourth job at once, as many jobs run as
    slots are busy at every look, every account has its share within a tenth, the audit finds nothing (P8)."""
    seen = race(database_url, claims=CLAIMS, slots=3)

    assert seen.claims >= CLAIMS
    assert (3, 0) == (seen.most_running, seen.uneven)
    assert 2 <= seen.most_held <= 3
    assert ACCOUNTS == len(seen.by_account)
    assert max(seen.by_account.values()) <= 1.1 * min(seen.by_account.values())
