"""Logs that cannot be written: work goes on, and what was lost is counted."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from servers.service import RunningService
from tenuto.logs import Unfailing


class _Blocked(io.StringIO):
    """A file on a disk that is full for a while."""

    is_full = False

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


def test_lost_lines_are_counted_and_told() -> None:
    """Nothing is raised; the first line that can be written again comes with the number of those lost."""
    stream = _Blocked()
    log = Unfailing(stream)
    log.write("one\n")
    stream.is_full = True
    for _ in range(3):
        log.write("lost\n")
    stream.is_full = False
    log.write("two\n")
    log.write("three\n")
    first, told, *rest = stream.getvalue().splitlines()

    assert "one" == first
    assert {"event": "log.lost", "level": "error", "lines": 3} == json.loads(told)
    assert ["two", "three"] == rest


def test_a_closed_stream_is_no_error() -> None:
    """At the very end of a process its stderr may be gone."""
    stream = io.StringIO()
    stream.close()
    log = Unfailing(stream)
    log.write("nobody reads this\n")
    log.flush()

    assert stream.closed


class _Full(type(Path())):  # type: ignore[misc]
    """A device that takes nothing, and that nobody should read: it has no end."""

    def read_text(self, *_: object, **__: object) -> str:
        return "nothing could be written"


class _Mute(RunningService):
    """A service that writes its log to a disk that is always full."""

    @property
    def log_path(self) -> Path:
        return _Full("/dev/full")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_service_whose_log_cannot_be_written_works(tmp_path: Path) -> None:
    """Requests are answered and jobs run to every end, though each line of it is refused (P1, P14)."""
    service = _Mute(tmp_path / "data", variables={"TENUTO_LOG": "debug"})
    service.start()
    service.key = service.make_key()
    states = [service.wait(service.submit(text))["state"] for text in ("Hold.", "[fake:raise] x")]
    with service.client() as http:
        missing = http.get("/v1/jobs/x").status_code
    code = service.stop()

    assert ["succeeded", "failed"] == states
    assert (404, 0) == (missing, code)


def test_lines_may_be_plain_text() -> None:
    """Of events and of requests, as JSON otherwise; lines below the level are left out."""
    code = (
        "from tenuto.logs import *; set_up_logs('info', 'text'); "
        "get_logger().info('an.event', one=1); request_log.info('a.request', 5, method='GET'); "
        "assert 1 == len(recent_events.newest(level='info', event='', limit=9)); "
        "set_up_logs('warning', 'text'); request_log.info('a.request', 5, method='POST')"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr

    assert "an.event" in text and "one=1" in text and "\x1b" not in text
    assert ("GET" in text, "POST" in text) == (True, False)
    assert "1970-01-01T00:00:00.005Z" in text
