"""Which events are counted."""

import pytest
from prometheus_client import CollectorRegistry

from tenuto.features.telemetry.metrics import count_events
from tenuto.logs import listen, tell


def test_what_is_only_told_is_neither_written_nor_counted(capfd: pytest.CaptureFixture[str]) -> None:
    """Features hear of it, with values that no log could hold; `tenuto_events` counts the log alone."""
    registry, heard = CollectorRegistry(), list[object]()
    count_events(registry)
    listen(lambda event, level, keys: heard.append((event, level, keys.get("what"))))
    what = object()
    tell("job.accepted", what=what)

    assert [("job.accepted", "debug", what)] == heard
    assert (
        registry.get_sample_value("tenuto_events_total", {"event": "job.accepted", "level": "debug"}) is None
    )
    assert ("", "") == capfd.readouterr()
