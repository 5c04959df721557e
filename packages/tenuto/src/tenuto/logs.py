"""Events as JSON lines on stderr, and no harm when they cannot be written. Knows nothing of what is logged.

The log is often on the disk that has just filled up, or behind a pipe whose reader has gone. Work
continues then: lost lines are counted, and their number is written before the next line.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TextIO

try:
    # Where rich is installed, structlog loads it for tracebacks at a terminal, which we never print: it costs
    # 100 ms of processor time in every process. So we import structlog as if rich were not installed.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    import structlog
finally:
    if sys.modules["rich"] is None:
        del sys.modules["rich"]

get_logger = structlog.get_logger
"""Every module gets its logger here; no other module imports structlog."""

Listener = Callable[[str, str, Mapping[str, Any]], None]
"""Called with an event, its level and its keys; from any thread, before it is written."""

_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Call the listener for every event from `info` on, whatever the level of the log."""
    _listeners.append(listener)


class Unfailing:
    """A stream whose writes never raise. Used from any thread; each write is one line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._lost = 0

    def write(self, line: str) -> None:
        with self._lock:
            lost = self._lost
            if lost:
                line = json.dumps({"event": "log.lost", "level": "error", "lines": lost}) + "\n" + line
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):  # ValueError: it is closed
                self._lost += 1
            else:
                self._lost -= lost

    def flush(self) -> None:
        """Nothing: every line is flushed as it is written."""


def set_up_once() -> None:
    """`set_up_logs` for a short command, which has not called it: its stdout is for results alone."""
    if not structlog.is_configured():
        set_up_logs("info")


def set_up_logs(level: str) -> None:
    """Events as JSON lines on stderr; nothing of a caller's text or key is ever a value."""
    numeric = getattr(logging, level.upper())
    common: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]

    def tell(logger: Any, name: str, event: Any) -> Any:
        for listener in _listeners:
            listener(event["event"], event["level"], event)
        if getattr(logging, event["level"].upper()) < numeric:
            raise structlog.DropEvent
        return event

    json_lines = structlog.processors.JSONRenderer()
    stream: Any = Unfailing(sys.stderr)
    # What libraries log through the standard library leaves in the same form.
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(json_lines, foreign_pre_chain=common))
    logging.basicConfig(level=numeric, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    structlog.configure(
        processors=[common[0], tell, *common[1:], json_lines],
        wrapper_class=structlog.make_filtering_bound_logger(min(numeric, logging.INFO)),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )
