"""The runs that a host has under way, and how each one's end is told.

It does not know how runs are chosen, nor when the process ends.
"""

from __future__ import annotations

import socket
import sys
import threading
import traceback
from typing import Any

from tenuto_engine import wire
from tenuto_engine.engine import Cancelled, Engine, EngineError, InputError, OutcomeUnknown, Result

MESSAGE_LIMIT = 4000


class Channel:
    """The way back to the parent, shared by all threads, and the runs that it has asked for."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        # Written by the listener when a run arrives, removed by its thread when it has ended.
        self._runs: dict[str, HostedRun] = {}

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send one message. What cannot be encoded raises TypeError or ValueError and sends nothing."""
        pieces = wire.encode(header, (body,))
        with self._sending:
            for piece in pieces:
                self._connection.sendall(piece)

    def open(self, header: dict[str, Any], body: bytes) -> HostedRun:
        """Note a run that the parent asks for; its inputs stand one after the other in the body."""
        inputs, start = {}, 0
        for name, size in header["inputs"]:
            inputs[name] = body[start : start + size]
            start += size
        run = HostedRun(header["run_id"], header["parameters"], inputs, self)
        self._runs[run.run_id] = run
        return run

    def cancel(self, run_id: str) -> None:
        """Ask a run to stop; one that has ended is past asking."""
        run = self._runs.get(run_id)
        if run is not None:
            run.cancelling.set()

    def running(self) -> list[str]:
        """Give the ids of the runs that have not ended."""
        return list(self._runs)

    def close(self, run_id: str) -> None:
        """Forget a run that has ended."""
        self._runs.pop(run_id, None)


class HostedRun:
    """The Run that an engine is handed. What the engine says after the run's end is refused, never sent."""

    def __init__(
        self, run_id: str, parameters: dict[str, Any], inputs: dict[str, bytes], channel: Channel
    ) -> None:
        self.run_id = run_id
        self.parameters = parameters
        self.inputs = inputs
        self.cancelling = threading.Event()
        self._channel = channel
        self._saying = threading.Lock()
        self._ended = False

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        self._say({"type": "segment", "run_id": self.run_id, "metadata": _object(metadata)}, bytes(content))

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        header = {"type": "progress", "run_id": self.run_id, "stage": str(stage), "unit": str(unit)}
        self._say({**header, "completed": int(completed), "total": int(total)})

    def check_cancelled(self) -> None:
        if self.cancelling.is_set():
            raise Cancelled

    def end(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Say how the run ended, once. What cannot be encoded raises and leaves the run open."""
        with self._saying:
            self._channel.close(self.run_id)
            self._channel.send({**header, "run_id": self.run_id}, body)
            self._ended = True

    def _say(self, header: dict[str, Any], body: bytes = b"") -> None:
        with self._saying:
            if self._ended:
                raise RuntimeError("this run has ended")
            self._channel.send(header, body)


def carry_out(engine: Engine, run: HostedRun) -> None:
    """Do one run and tell its end, whatever the engine does short of ending the process."""
    try:
        run.check_cancelled()
        result = engine.run(run)
        run.end(*_told(result))
    except Cancelled:
        run.end({"type": "cancelled"})
    except OutcomeUnknown as error:
        run.end({"type": "unknown", "message": _plain(str(error))})
    except EngineError as error:
        run.end(failure(error))
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        run.end(failure(error))


def failure(error: BaseException) -> dict[str, Any]:
    """Put an exception into words that can always be sent."""
    code, message, transient = "engine_failed", f"{type(error).__name__}: {error}", False
    if isinstance(error, EngineError):
        code, message, transient = str(error.code), str(error.message), bool(error.transient)
    said = {"code": _plain(code), "message": _plain(message), "transient": transient}
    return {"type": "failed", **said, "public": isinstance(error, InputError)}


def _plain(text: str) -> str:
    return text[:MESSAGE_LIMIT].encode("utf-8", "replace").decode()


def _told(result: Result) -> tuple[dict[str, Any], bytes]:
    if not isinstance(result, Result):
        raise TypeError(f"the engine gave {type(result).__name__}, not a Result")
    if not isinstance(result.media_type, str) or not isinstance(result.content, bytes):
        raise TypeError("a result's media_type is a str and its content is bytes")
    header: dict[str, Any] = {"type": "result", "media_type": result.media_type}
    header["metadata"] = _object(result.metadata)
    header["duration_ms"] = None if result.duration_ms is None else int(result.duration_ms)
    return header, result.content


def _object(metadata: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata is a dict, not {type(metadata).__name__}")
    return metadata
