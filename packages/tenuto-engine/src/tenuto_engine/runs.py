"""The current runs of a host, and how the outcome of each is reported."""

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
    """The connection back to the parent, shared by all threads, and the current runs."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        # Added by the reading thread when a run arrives, removed by the run's thread when it is over.
        self._runs: dict[str, HostedRun] = {}

    def send(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send one message. Raises TypeError or ValueError, and sends nothing, if it cannot be encoded."""
        pieces = wire.encode(header, (body,))
        with self._sending:
            for piece in pieces:
                self._connection.sendall(piece)

    def open(self, header: dict[str, Any], body: bytes) -> HostedRun:
        """Register a run; the body contains its inputs one after the other."""
        inputs, start = {}, 0
        for name, size in header["inputs"]:
            inputs[name] = body[start : start + size]
            start += size
        run = HostedRun(header["run_id"], header["parameters"], inputs, self)
        self._runs[run.run_id] = run
        return run

    def cancel(self, run_id: str) -> None:
        """Cancel a run, unless it is over."""
        run = self._runs.get(run_id)
        if run is not None:
            run.cancelling.set()

    def running(self) -> list[str]:
        """The ids of the current runs."""
        return list(self._runs)

    def close(self, run_id: str) -> None:
        """Remove a run that is over."""
        self._runs.pop(run_id, None)


class HostedRun:
    """The Run that an engine gets. Anything that the engine sends after the run is over raises
    RuntimeError."""

    def __init__(
        self, run_id: str, parameters: dict[str, Any], inputs: dict[str, bytes], channel: Channel
    ) -> None:
        self.run_id = run_id
        self.parameters = parameters
        self.inputs = inputs
        self.cancelling = threading.Event()
        self._channel = channel
        self._send_lock = threading.Lock()
        self._is_over = False

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        self._send({"type": "segment", "run_id": self.run_id, "metadata": _object(metadata)}, bytes(content))

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        header = {"type": "progress", "run_id": self.run_id, "stage": str(stage), "unit": str(unit)}
        self._send({**header, "completed": int(completed), "total": int(total)})

    def check_cancelled(self) -> None:
        if self.cancelling.is_set():
            raise Cancelled

    def end(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Report the outcome, once. Raises, and leaves the run open, if it cannot be encoded."""
        with self._send_lock:
            self._channel.close(self.run_id)
            self._channel.send({**header, "run_id": self.run_id}, body)
            self._is_over = True

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        with self._send_lock:
            if self._is_over:
                raise RuntimeError("this run is over")
            self._channel.send(header, body)


def carry_out(engine: Engine, run: HostedRun) -> None:
    """Do one run and report its outcome, whatever the engine does short of killing the process."""
    try:
        run.check_cancelled()
        result = engine.run(run)
        run.end(*_message_of(result))
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
    """The message for an exception; it can always be encoded."""
    code, message, transient = "engine_failed", f"{type(error).__name__}: {error}", False
    if isinstance(error, EngineError):
        code, message, transient = str(error.code), str(error.message), bool(error.transient)
    fields = {"code": _plain(code), "message": _plain(message), "transient": transient}
    return {"type": "failed", **fields, "public": isinstance(error, InputError)}


def _plain(text: str) -> str:
    return text[:MESSAGE_LIMIT].encode("utf-8", "replace").decode()


def _message_of(result: Result) -> tuple[dict[str, Any], bytes]:
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
