"""Two APIs and two workers, each on a machine of its own, database and store on a fifth; for all these tests.

Leases are ten times as quick as by default: nobody waits half a minute for a promise of forty seconds.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.fleet import Fleet
from servers.checker import PRICED

SILENCE_S = 3.0
NOTICED_S = SILENCE_S * 40 / 30
"""The promise is 40 s with the default silence of 30 s."""
SLOTS = 2


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet that works; a test leaves it whole."""
    folder = tmp_path_factory.mktemp("fleet")
    made = Fleet(folder, settings(folder), apis=2, workers=2, has_store=True, is_durable=False)
    try:
        made.start()
        made.operator.key = made.operator.make_key("fleet", credit="1000")
        yield made
    finally:
        made.close()


def settings(folder: Path, **more: str) -> dict[str, str]:
    """Every job has its price, two run at once."""
    (folder / "tenuto.toml").write_text(PRICED)
    return {
        "TENUTO_CONFIG": str(folder / "tenuto.toml"),
        "TENUTO_REQUESTS_PER_SECOND": "0",
        "TENUTO_SPEECH_SLOTS": str(SLOTS),
        "TENUTO_SILENCE_S": str(SILENCE_S),
        "TENUTO_HEARTBEAT_S": "0.5",
        "TENUTO_DRAIN_S": "5",
        **more,
    }
