"""Events as JSON lines on stderr; failing to write them does no harm. Knows nothing of what is logged.

On a terminal they are text, from `warning` up, unless the settings say otherwise. The log is often on the
disk that has just filled up, or behind a pipe whose reader is gone. Work then continues: lost lines are
counted, and the count is written before the next line.
"""

import atexit
import json
import logging
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

import msgspec

from tenuto.errors import is_of_the_machine

try:
    # Where rich is installed, structlog loads it for tracebacks at a terminal, which we never print: it costs
    # 100 ms of processor time in every process. So we import structlog as if rich were not installed.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    import structlog
finally:
    if sys.modules["rich"] is None:
        del sys.modules["rich"]

_encode = msgspec.json.Encoder().encode
get_logger = structlog.get_logger
"""Every module gets its logger here; no other module imports structlog."""


def log_failure(log: Any, event: str, error: Exception, **keys: object) -> None:
    """Log the error that ended one turn of a loop: a bug as this event, with its traceback.
    What the machine lacks at the moment, such as descriptors, is a warning instead.
    """
    if is_of_the_machine(error):
        log.warning("machine.lacks", during=event, reason=f"{type(error).__name__}: {error}", **keys)
    else:
        log.exception(event, **keys)


Listener = Callable[[str, str, Mapping[str, Any]], None]
"""Called with an event, its level and its keys; from any thread, before it is written."""

_listeners: list[Listener] = []


RECENT = 500
"""How many events a process remembers for the operator's page."""
MAX_CHARACTERS = 300
"""The most characters kept of each value there."""
LEVELS = ("debug", "info", "warning", "error", "critical")


class RecentEvent(msgspec.Struct, frozen=True):
    """An event as it was logged; of an exception, its type and message without the traceback."""

    at: str
    level: str
    event: str
    keys: dict[str, str]


class RecentEvents:
    """The newest events of this process from `info` up, kept in memory only. Used from any thread."""

    def __init__(self, most: int = RECENT) -> None:
        self._events: deque[RecentEvent] = deque(maxlen=most)

    def note(self, event: Mapping[str, Any]) -> None:
        """Remember a structlog event, with its level and timestamp."""
        keys = {
            str(name): str(value)[:MAX_CHARACTERS]
            for name, value in event.items()
            if name not in ("event", "level", "timestamp", "exc_info")
        }
        if exception := event.get("exc_info") and sys.exc_info()[1]:
            keys["exception"] = f"{type(exception).__name__}: {exception}"[:MAX_CHARACTERS]
        recent = RecentEvent(str(event.get("timestamp", "")), event["level"], str(event["event"]), keys)
        self._events.append(recent)

    def newest(self, *, level: str, event: str, limit: int) -> list[RecentEvent]:
        """Events of at least this level whose names begin with `event`, newest first."""
        worst = LEVELS.index(level)
        events = [
            each
            for each in list(self._events)
            if LEVELS.index(each.level) >= worst and each.event.startswith(event)
        ]
        return events[::-1][:limit]


recent_events = RecentEvents()
"""The events of this process."""


def listen(listener: Listener) -> None:
    """Call the listener for every event from `info` up, whatever the log level, and for those of `tell`."""
    _listeners.append(listener)


def tell(event: str, **keys: Any) -> None:
    """Tell the listeners of an event that is not logged, at the level `debug`; its keys may be any values."""
    for listener in _listeners:
        listener(event, "debug", keys)


class LinesAlone:
    """Events at `info` that go to the log and nowhere else, for what happens a thousand times a second.

    Listeners, the operator's page and structlog's own machinery took a tenth of the time of accepting a
    job. Requests are counted elsewhere, and would displace every warning on that page.
    """

    def __init__(self) -> None:
        self._render: Callable[[dict[str, Any]], str] = repr
        self._stream: Any = None
        self._second, self._text = -1, ""

    def write_to(self, stream: Any, render: Callable[[dict[str, Any]], str]) -> None:
        """From now on, write each event to `stream` as `render` formats it."""
        self._stream, self._render = stream, render

    def info(self, event: str, at_ms: int, **keys: str | float) -> None:
        """Write a line with this wall time; nothing if the log level is above `info`."""
        if self._stream is None:
            return
        second = at_ms // 1000
        if second != self._second:
            self._second, self._text = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        keys["event"], keys["level"] = event, "info"
        keys["timestamp"] = f"{self._text}.{at_ms % 1000:03d}Z"
        self._stream.write(f"{self._render(keys)}\n")


request_log = LinesAlone()


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
        """Does nothing: every line is flushed as it is written."""


def _let_go() -> None:
    """Drop text that could not be written: if flushing it at exit failed, the process would exit with 120."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open until the process has ended


def set_up_once() -> None:
    """`set_up_logs` for a short command that has not called it: its stdout is for results only."""
    if not structlog.is_configured():
        set_up_logs("info")


def set_up_logs(level: str, form: str = "auto") -> None:
    """Log events as lines on stderr, in the `form` that the setting `log_format` names.
    No value ever contains a caller's text or key."""
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    # At a terminal the command itself reports that all is well, unless the user asks for more.
    is_quiet = is_terminal and form == "auto" and level == "info"
    numeric = getattr(logging, "WARNING" if is_quiet else level.upper())
    common: list[Any] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]

    def pass_on(logger: Any, name: str, event: Any) -> Any:
        for listener in _listeners:
            listener(event["event"], event["level"], event)
        recent_events.note(event)
        if getattr(logging, event["level"].upper()) < numeric:
            raise structlog.DropEvent
        return event

    rendered = _renderer(form, is_terminal)
    stream: Any = Unfailing(sys.stderr)
    atexit.register(_let_go)
    request_log.write_to(stream if numeric <= logging.INFO else None, _line_renderer(rendered))
    # What libraries log through the standard library is written in the same form.
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(rendered, foreign_pre_chain=common))
    logging.basicConfig(level=numeric, handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    structlog.configure(
        processors=[*common[:2], pass_on, common[2], rendered],
        wrapper_class=structlog.make_filtering_bound_logger(min(numeric, logging.INFO)),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=True,
    )


def _renderer(form: str, is_terminal: bool) -> Any:
    if form == "text" or (form == "auto" and is_terminal):
        return structlog.dev.ConsoleRenderer(
            colors=is_terminal and not os.environ.get("NO_COLOR"),
            exception_formatter=structlog.dev.plain_traceback,
        )
    return structlog.processors.JSONRenderer()


def _line_renderer(rendered: Any) -> Callable[[dict[str, Any]], str]:
    """Render events with simple values: JSON by msgspec, in a quarter of the time; text like all others."""
    if isinstance(rendered, structlog.processors.JSONRenderer):
        return lambda event: _encode(event).decode()
    return lambda event: str(rendered(None, "info", event))
