"""docs/web.md and docs/operations/accounts.md say what the code does."""

import re
from pathlib import Path

from argon2.profiles import RFC_9106_LOW_MEMORY as COST

from tenuto.features.studio import passwords
from tenuto.features.studio import people_operations as people
from tenuto.features.studio.app import ROUTES
from tenuto.features.studio.studio import HASHING_THREADS, MAX_WAITING_HASHES
from tenuto.features.studio.tries import NEW_ACCOUNTS, OF_ADDRESS, OF_NAME, OF_PAIR

DOCS = Path(__file__).parents[2] / "docs"


def test_every_route_of_the_studio_is_documented() -> None:
    """The table of routes is the one that requests are matched against, in its order."""
    document = (DOCS / "web.md").read_text("utf-8")
    lines = re.findall(r"^\| `(/web/[^`]*)` \| ([A-Z, ]+) \|", document, re.MULTILINE)

    assert [(path, ", ".join(handlers)) for path, handlers in ROUTES.items()] == lines


def test_the_limits_are_documented() -> None:
    """Figures in the text are those of the code."""
    document = " ".join((DOCS / "operations" / "accounts.md").read_text("utf-8").split())
    pairs, addresses, names, accounts = OF_PAIR, OF_ADDRESS, OF_NAME, NEW_ACCOUNTS
    said = [
        f"{passwords.MIN_CHARACTERS} to {passwords.MAX_CHARACTERS} characters",
        f"argon2id ({COST.memory_cost // 1024} MiB, three passes)",
        f"at most two are checked at a time, {MAX_WAITING_HASHES} wait",
        f"{pairs.size} at a name from one address, then one every {pairs.leak_s} seconds",
        f"{addresses.size} from one address",
        f"then one every {addresses.leak_s} seconds; {names.size} at one name from anywhere",
        f"then one every {names.leak_s} seconds, except",
        f"at most {accounts.size} at once, then one a minute",
    ]

    assert [] == [each for each in said if each not in document]
    assert (3, 2, 60) == (COST.time_cost, HASHING_THREADS, accounts.leak_s)
    assert (7, 1) == (people.INVITATION_MS // 86_400_000, people.SET_UP_MS // 86_400_000)
