"""docs/web.md and docs/operations/accounts.md say what the code does."""

import re
from pathlib import Path

from argon2.profiles import RFC_9106_LOW_MEMORY as COST

from tenuto.accounts import passwords, people
from tenuto.web.app import ROUTES
from tenuto.web.studio import HASHING_THREADS, MAX_WAITING_HASHES, LoginThrottle

DOCS = Path(__file__).parents[2] / "docs"


def test_every_route_of_the_studio_is_documented() -> None:
    """The table of routes is the one that requests are matched against, in its order."""
    document = (DOCS / "web.md").read_text("utf-8")
    lines = re.findall(r"^\| `(/web/[^`]*)` \| ([A-Z, ]+) \|", document, re.MULTILINE)

    assert [(path, ", ".join(handlers)) for path, handlers in ROUTES.items()] == lines


def test_the_limits_are_documented() -> None:
    """Figures in the text are those of the code."""
    document = " ".join((DOCS / "operations" / "accounts.md").read_text("utf-8").split())
    limits = LoginThrottle()
    pairs, addresses = limits._pairs, limits._addresses
    names, accounts = limits._names, limits._accounts
    said = [
        f"{passwords.MIN_CHARACTERS} to {passwords.MAX_CHARACTERS} characters",
        f"argon2id ({COST.memory_cost // 1024} MiB, three passes)",
        f"at most two are checked at a time, {MAX_WAITING_HASHES} wait",
        f"{pairs._size} at a name from one address, then one every {pairs._leak_s:.0f} seconds",
        f"{addresses._size} from one address",
        f"then one every {addresses._leak_s:.0f} seconds; {names._size} at one name from anywhere",
        f"then one every {names._leak_s:.0f} seconds. 429",
        f"at most {accounts._size} at once, then one a minute",
    ]

    assert [] == [each for each in said if each not in document]
    assert (3, 2, 60.0) == (COST.time_cost, HASHING_THREADS, accounts._leak_s)
    assert (7, 1) == (people.INVITATION_MS // 86_400_000, people.SET_UP_MS // 86_400_000)
