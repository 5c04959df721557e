"""A machine that has no thread left for a moment."""

import threading

import pytest

LACKING = "can't start new thread"
"""What CPython says then."""


def lacking(monkeypatch: pytest.MonkeyPatch, name: str, times: int = 1) -> list[str]:
    """The next so many threads with this in their names cannot be started; returns those that were not."""
    start, refused = threading.Thread.start, list[str]()

    def starting(thread: threading.Thread) -> None:
        if name in thread.name and len(refused) < times:
            refused.append(thread.name)
            raise RuntimeError(LACKING)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starting)
    return refused
