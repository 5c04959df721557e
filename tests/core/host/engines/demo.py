"""An engine for the hosts' tests: `parameters["mode"]` names what it does. The standard library only."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tenuto_engine import Cancelled, EngineError, OutcomeUnknown, Result, Run


class Demo:
    def __init__(self, options: dict[str, Any]) -> None:
        if options.get("load") == "raise":
            raise EngineError("weights_missing", "no weights here")
        if options.get("load") == "hang":
            time.sleep(600)
        time.sleep(options.get("load_s", 0))
        self.concurrency = options.get("concurrency", 1)
        self.info = {"model_id": "demo"}
        self.meeting = threading.Barrier(2)
        self.counting = threading.Lock()
        self.active = 0
        self.most = 0

    def run(self, run: Run) -> Result:
        with self.counting:
            self.active += 1
            self.most = max(self.most, self.active)
        try:
            found: Result = getattr(self, run.parameters["mode"])(run)
            return found
        finally:
            with self.counting:
                self.active -= 1

    def echo(self, run: Run) -> Result:
        seen = {"parameters": run.parameters, "run_id": run.run_id, "pid": os.getpid()}
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in run.inputs.items()}
        return Result("text/plain", b"echo", {**seen, "inputs": digests}, 7)

    def big(self, run: Run) -> Result:
        return Result("application/octet-stream", b"r" * run.parameters["size_bytes"], {})

    def stream(self, run: Run) -> Result:
        total = run.parameters["total"]
        for index in range(total):
            run.check_cancelled()
            run.segment(bytes([index % 256]) * run.parameters.get("size_bytes", 10), {"index": index})
            run.progress("streaming", index + 1, total, "segments")
        return Result("text/plain", b"", {})

    def until_cancelled(self, run: Run) -> Result:
        run.progress("waiting", 0, 1, "cancels")
        while True:
            run.check_cancelled()
            time.sleep(0.001)

    def deaf(self, run: Run) -> Result:
        run.progress("waiting", 0, 1, "cancels")
        time.sleep(600)
        raise AssertionError

    def finish_when_cancelled(self, run: Run) -> Result:
        try:
            return self.until_cancelled(run)
        except Cancelled:
            return Result("text/plain", b"finished all the same", {})

    def linger(self, run: Run) -> Result:
        try:
            return self.until_cancelled(run)
        except Cancelled:
            time.sleep(run.parameters["seconds"])
            run.segment(b"nobody hears this", {})
            raise

    def when_there(self, run: Run) -> Result:
        run.progress("waiting", 0, 1, "files")
        while not Path(run.parameters["file"]).exists():
            run.check_cancelled()
            time.sleep(0.001)
        return Result("text/plain", str(os.getpid()).encode(), {})

    def hold_lock(self, run: Run) -> Result:
        run.progress("waiting", 0, 1, "cancels")
        ctypes.PyDLL(None).sleep(600)
        raise AssertionError

    def start_another(self, run: Run) -> Result:
        other = subprocess.Popen(["sleep", "600"])
        run.progress("started", other.pid, other.pid, "processes")
        return self.until_cancelled(run) if run.parameters.get("hear") else self.deaf(run)

    def crash(self, run: Run) -> Result:
        ctypes.string_at(0)
        raise AssertionError

    def leave(self, run: Run) -> Result:
        print("the last words")
        os._exit(3)

    def leave_another_behind(self, run: Run) -> Result:
        if os.fork():
            os._exit(3)
        # Another session, another group, and it keeps the connection for longer than the run may take.
        os.setsid()
        os.close(1)
        os.close(2)
        time.sleep(10)
        os._exit(0)

    def print_from_elsewhere(self, run: Run) -> Result:
        # In a session of its own, and what it prints goes where the engine's words go.
        subprocess.Popen(["sleep", "3"], start_new_session=True)
        return self.deaf(run)

    def raise_error(self, run: Run) -> Result:
        raise ValueError("bad prompt")

    def refuse(self, run: Run) -> Result:
        raise EngineError("nothing_to_speak", "there is nothing", transient=True)

    def unknown(self, run: Run) -> Result:
        raise OutcomeUnknown("the line went dead")

    def exit_politely(self, run: Run) -> Result:
        sys.exit(4)

    def unfit(self, run: Run) -> Result:
        results: dict[str, Any] = {
            "none": None,
            "text": Result("text/plain", "text", {}),  # type: ignore[arg-type]
            "nan": Result("text/plain", b"", {"score": float("nan")}),
            "object": Result("text/plain", b"", {"score": object()}),
            "list": Result("text/plain", b"", [1]),  # type: ignore[arg-type]
            "surrogate": Result("text/plain", b"", {"text": "\ud800"}),
            "long": Result("text/plain", b"", {"text": "x" * (2 << 20)}),
        }
        found: Result = results[run.parameters["which"]]
        return found

    def meet(self, run: Run) -> Result:
        self.meeting.wait(timeout=20)
        return Result("text/plain", b"", {})

    def count(self, run: Run) -> Result:
        run.progress("counting", 0, 1, "runs")
        return Result("text/plain", b"", {"most": self.most})

    def surroundings(self, run: Run) -> Result:
        seen = {"environment": dict(os.environ), "path": sys.path, "session": os.getsid(0) == os.getpid()}
        seen["tenuto"] = importlib.util.find_spec("tenuto") is not None
        seen["descriptors"] = [entry.name for entry in Path("/proc/self/fd").iterdir()]
        connection = int(sys.argv[sys.argv.index("--fd") + 1])
        seen["inheritable"] = os.get_inheritable(connection)
        return Result("text/plain", b"", seen)
