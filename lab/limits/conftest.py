"""Services that are flooded, one that is not, and the program that floods."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from limits.conftest import Refusals, running
from servers.callers import Operator
from servers.service import RunningService

COUNT = int(os.environ.get("FLOOD_CLIENTS", "170"))
"""Slow clients of each kind; a quiet machine can be asked for 2,000."""
WAITED_S = 4
TIMES = {"TENUTO_SLOW_HEAD_S": "4", "TENUTO_SLOW_BODY_S": "4", "TENUTO_SLOW_READER_S": "4"}
# All the slow ones come from one address and one account, and may take half of the places together.
TIMES["TENUTO_CONNECTIONS"] = TIMES["TENUTO_CONNECTIONS_PER_ADDRESS"] = str(max(1800, 8 * COUNT))
TIMES["TENUTO_REQUESTS_AT_ONCE"] = str(max(1000, 4 * COUNT))


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Operator, Refusals]]:
    """The usual limits, but more connections, and slow clients are waited for four seconds."""
    yield from running(tmp_path_factory.mktemp("usual") / "data", TIMES)


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Operator, Refusals]]:
    """The same, that nobody floods: what the machine is busy with otherwise tells in both."""
    yield from running(tmp_path_factory.mktemp("calm") / "data", TIMES)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Operator, Refusals]]:
    """Nothing is set: what a new installation bears."""
    yield from running(tmp_path_factory.mktemp("plain") / "data", {})


def start_flood(service: RunningService, *words: str) -> subprocess.Popen[str]:
    """`flood.py COUNT LIMIT_S KIND KEY… [PATH]` on this service; `is_there` waits for all its clients."""
    flood = Path(__file__).with_name("flood.py")
    return subprocess.Popen(
        [sys.executable, flood, "127.0.0.1", str(service.port), *words], stdout=subprocess.PIPE, text=True
    )


def is_there(flood: subprocess.Popen[str]) -> bool:
    """Whether all of its clients have come."""
    assert flood.stdout is not None
    return flood.stdout.readline() == "flooding\n"


def resident_bytes(service: RunningService) -> int:
    """What the API process takes of memory now."""
    assert service.process is not None
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[0]) * 1024
