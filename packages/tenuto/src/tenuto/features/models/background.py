"""A pull beside a running service, in a child process: hashing and unpacking cost the service nothing.

`BackgroundPull` is the parent's end; the child, `python -m tenuto.features.models.background CACHE NAME…`,
writes its progress as lines of JSON and stops when its standard input ends, as it does when the parent ends.
What has arrived is kept, and the next pull continues from there. Knows neither HTTP nor who asked for it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

from msgspec import Struct
from msgspec.structs import replace

from tenuto.errors import OperatorError
from tenuto.logs import get_logger

NICE = 10
REPORT_EVERY_S = 0.2

State = Literal["running", "done", "failed", "stopped"]

_log = get_logger("tenuto.weights")


class Progress(Struct, frozen=True):
    """How far the last pull has come."""

    model: str
    state: State
    done_bytes: int = 0
    total_bytes: int = 0
    """Of what is downloaded and unpacked; 0: not known yet."""
    stage: str = "checking"
    """That of the weight that progressed last; `waiting` while another pull holds the cache."""
    reason: str | None = None
    """Why it failed."""


class BackgroundPull:
    """One pull at a time; the last one's outcome is kept until the next begins. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._process: subprocess.Popen[str] | None = None

    def begin(self, model: str, names: Sequence[str], cache: Path) -> Progress:
        """Start pulling a model's weights. OperatorError while another model's are being pulled."""
        with self._lock:
            now = self._progress
            if now is not None and now.state == "running":
                if now.model == model:
                    return now
                raise OperatorError(f"the weights of {now.model} are being downloaded; wait, or stop that")
            process = subprocess.Popen(
                [sys.executable, "-m", "tenuto.features.models.background", str(cache), *names],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            try:
                threading.Thread(target=self._follow, args=(process,), daemon=True).start()
            except RuntimeError:
                with process:
                    process.kill()
                raise
            # Only now: what could not be started must not count as running.
            self._process, self._progress = process, (begun := Progress(model, "running"))
        _log.info("weights.pull_began", model=model)
        return begun

    def stop(self) -> Progress | None:
        """End the running pull; what has arrived is kept."""
        with self._lock:
            if self._progress is not None and self._progress.state == "running":
                self._progress = replace(self._progress, state="stopped")
                assert self._process is not None
                # It ends pip and npm first, which are in sessions of their own.
                self._process.terminate()
            return self._progress

    def progress(self) -> Progress | None:
        """How far it has come; None: none was begun since this process started."""
        with self._lock:
            return self._progress

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None and process.stdin is not None
        reason = "it ended without a reason"
        with process.stdin, process.stdout:
            for line in process.stdout:
                try:
                    told = json.loads(line)
                except ValueError:  # The child died in the middle of a line.
                    continue
                reason = told.pop("reason", reason)
                self._note(process, **told)
        if process.wait() == 0:
            self._note(process, state="done")
        else:
            self._note(process, state="failed", reason=reason)

    def _note(self, process: subprocess.Popen[str], **told: Any) -> None:
        """Note progress of the current process only: a stopped one may report after the next has begun."""
        with self._lock:
            now = self._progress
            if now is None or self._process is not process or now.state != "running":
                return
            self._progress = now = replace(now, **told)
        if now.state != "running":
            _log.info("weights.pull_ended", model=now.model, state=now.state)


def main(arguments: Sequence[str]) -> int:
    """The child: pull the weights of these names into the cache."""
    from tenuto.features.models.pull import WeightsUnavailable, pull

    os.nice(NICE)
    signal.signal(signal.SIGTERM, lambda *_: _end())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    cache, *names = arguments
    # What a library may print must not reach the parent.
    lines, sys.stdout = _Lines(sys.stdout), sys.stderr
    try:
        pull(names, Path(cache), lines.report)
    except OperatorError as error:
        reason = error.summary if isinstance(error, WeightsUnavailable) else error.message
        lines.tell(reason=reason)
        return 1
    return 0


def _end_with_parent() -> None:
    sys.stdin.read()
    _end()


def _end() -> None:
    """End at once, with whatever downloads for us."""
    from tenuto.features.models import downloads

    downloads.end_all()
    os.killpg(os.getpgrp(), signal.SIGKILL)


class _Lines:
    """Writes the sums over all weights as lines: one in a while at most, but every new stage."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._weights: dict[str, tuple[int, int]] = {}
        self._stage = ""
        self._told_s = 0.0

    def report(self, name: str, done_bytes: int, total_bytes: int, stage: str) -> None:
        """Called by the pull, one thread at a time."""
        self._weights[name] = (done_bytes, total_bytes)
        now_s = time.monotonic()
        if stage == self._stage and now_s - self._told_s < REPORT_EVERY_S:
            return
        self._stage, self._told_s = stage, now_s
        done, total = (sum(each) for each in zip(*self._weights.values(), strict=True))
        self.tell(done_bytes=done, total_bytes=total, stage=stage)

    def tell(self, **facts: Any) -> None:
        """Write one line."""
        self._to.write(json.dumps(facts) + "\n")
        self._to.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
