"""A pull beside a running service that cannot be started."""

import errno
import subprocess
import threading
from pathlib import Path

import pytest

from tenuto.weights import background


def test_a_pull_that_cannot_be_started_does_not_count_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor or no thread just now: nothing is running afterwards, and the next pull begins."""
    pull, popen, start = (
        background.BackgroundPull(),
        subprocess.Popen,
        threading.Thread.start,
    )

    def lacks_descriptors(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    def lacks_threads(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(subprocess, "Popen", lacks_descriptors)
    with pytest.raises(OSError, match="Too many open files"):
        pull.begin("a/model", ["x"], tmp_path)
    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(threading.Thread, "start", lacks_threads)
    with pytest.raises(RuntimeError):
        pull.begin("a/model", ["x"], tmp_path)
    before = pull.progress(), pull.stop()
    monkeypatch.setattr(threading.Thread, "start", start)
    begun = pull.begin("b/model", ["x"], tmp_path)
    stopped = pull.stop()

    assert (None, None) == before
    assert ("b/model", "running") == (begun.model, begun.state)
    assert stopped is not None and stopped.state == "stopped"
