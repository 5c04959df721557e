"""A service whose limits are small enough to be reached, and what it counts of refusals."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from servers.callers import Operator
from servers.service import RunningService

SMALL = {
    "TENUTO_REQUESTS_PER_SECOND": "20",
    "TENUTO_QUEUED_JOBS": "1",
    "TENUTO_UPLOADS": "1",
    "TENUTO_STORED_MIB": "1",
    "TENUTO_STORED_FILES": "3",
    "TENUTO_SCRATCH_MIB": "16",
    "TENUTO_QUEUED_CHATS": "1",
    "TENUTO_JOB_BODY_KIB": "2",
    "TENUTO_CHAT_BODY_KIB": "2",
    "TENUTO_CONNECTIONS": "30",
    "TENUTO_CONNECTIONS_PER_ADDRESS": "25",
    "TENUTO_REQUESTS_AT_ONCE": "12",
    "TENUTO_SLOW_HEAD_S": "1",
    "TENUTO_SLOW_BODY_S": "1",
    "TENUTO_SLOW_READER_S": "1",
}
SHORT = {"TENUTO_HOST_GRACE_S": "0.2", "TENUTO_DRAIN_S": "0"}
"""So that the end of a test waits for no job."""


class Refusals:
    """What /metrics tells of refusals."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self._url = self.address + "/metrics"

    def all(self) -> dict[str, int]:
        text = httpx2.get(self._url, timeout=120).text
        found = re.findall(r'^tenuto_refused_total\{limit="(\w+)"\} ([0-9.e+]+)$', text, re.MULTILINE)
        return {limit: int(float(count)) for limit, count in found}

    def given_up(self) -> int:
        """Downloads whose clients left before the end."""
        text = httpx2.get(self._url, timeout=120).text
        line = r'^tenuto_http_requests_total\{.*route="/v1/artifacts/.*status="499"\} ([0-9.e+]+)$'
        return sum(int(float(count)) for count in re.findall(line, text, re.MULTILINE))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Operator, Refusals]]:
    """Limits of one, two or a few, and times of a second."""
    yield from running(tmp_path_factory.mktemp("small") / "data", SMALL | SHORT)


def running(folder: Path, variables: dict[str, str]) -> Iterator[tuple[Operator, Refusals]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    running = RunningService(folder, None, variables=variables | {"TENUTO_METRICS_PORT": str(port)})
    running.start()
    operator = Operator(running)
    try:
        yield operator, Refusals(port)
    finally:
        operator.close()
        running.stop()
