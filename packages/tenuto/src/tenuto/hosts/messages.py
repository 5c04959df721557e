"""What a host may say, checked on arrival. A host is not trusted: what is not listed here is the end of it.

Does not know sockets or processes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tenuto.hosts.host import HostResult

NAME_LIMIT = 255
MESSAGE_LIMIT = 4000
# Larger integers do not survive JSON in browsers, nor fit a signed 64-bit column once added up.
INTEGER_LIMIT = 1 << 53


class Malformed(ValueError):
    """A message that a host may not send."""


@dataclass(frozen=True)
class Hello:
    """The first message; sent before the engine is imported."""

    protocol: int
    python: str


@dataclass(frozen=True)
class Loaded:
    """The engine is ready. `concurrency` is how many runs it takes at once."""

    info: dict[str, Any]
    concurrency: int


@dataclass(frozen=True)
class Health:
    info: dict[str, Any]


@dataclass(frozen=True)
class Segment:
    content: bytes
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Progress:
    progress: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """The end of a run, or of a load."""

    code: str
    message: str
    transient: bool
    # The message was written for callers.
    public: bool


@dataclass(frozen=True)
class Stopped:
    """The end of a run that was asked to stop."""


@dataclass(frozen=True)
class Unknown:
    """The end of a metered run whose outcome the engine cannot say."""

    message: str


@dataclass(frozen=True)
class Finished:
    """The end of a run that went well."""

    result: HostResult


Ending = Failed | Stopped | Unknown | Finished
Message = Hello | Loaded | Health | Segment | Progress | Ending


def parse(header: dict[str, Any], body: bytes) -> tuple[str, Message]:
    """Give the id of the run that a message is about ("" for none) and the message. Raises Malformed."""
    kind = header["type"]
    run_id = _text(header, "run_id", NAME_LIMIT) if "run_id" in header else ""
    if body and kind not in ("segment", "result"):
        raise Malformed(f"{kind[:NAME_LIMIT]!r} with a body")
    if kind in _ABOUT_A_RUN and (run_id or kind == "failed"):
        return run_id, _ABOUT_A_RUN[kind](header, body)
    if kind in _ABOUT_NONE and not run_id:
        return run_id, _ABOUT_NONE[kind](header)
    raise Malformed(f"a message of type {kind[:NAME_LIMIT]!r}, with run {run_id!r}")


def _loaded(header: dict[str, Any]) -> Loaded:
    info = _object(header, "info")
    return Loaded(info, _integer(info, "concurrency", least=1))


def _progress(header: dict[str, Any]) -> Progress:
    completed, total = _integer(header, "completed"), _integer(header, "total")
    stage, unit = _text(header, "stage", NAME_LIMIT), _text(header, "unit", NAME_LIMIT)
    return Progress({"stage": stage, "completed": completed, "total": total, "unit": unit})


def _failed(header: dict[str, Any]) -> Failed:
    transient = header.get("transient")
    if not isinstance(transient, bool):
        raise Malformed("transient is not a boolean")
    public = header.get("public", False)
    if not isinstance(public, bool):
        raise Malformed("public is not a boolean")
    return Failed(_text(header, "code", NAME_LIMIT), _text(header, "message"), transient, public)


def _result(header: dict[str, Any], body: bytes) -> HostResult:
    media_type = _text(header, "media_type", NAME_LIMIT)
    if "/" not in media_type or not media_type.isprintable():
        raise Malformed("media_type is not one")
    duration_ms = None if header.get("duration_ms") is None else _integer(header, "duration_ms")
    return HostResult(media_type, body, _object(header, "metadata"), duration_ms)


def _text(header: dict[str, Any], name: str, limit: int = MESSAGE_LIMIT) -> str:
    text = header.get(name)
    if not isinstance(text, str) or len(text) > limit:
        raise Malformed(f"{name} is not a string of at most {limit} characters")
    return text


def _integer(header: dict[str, Any], name: str, least: int = 0) -> int:
    number = header.get(name)
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number < INTEGER_LIMIT:
        raise Malformed(f"{name} is not an integer of {least} or more")
    return number


def _object(header: dict[str, Any], name: str) -> dict[str, Any]:
    value = header.get(name)
    if not isinstance(value, dict):
        raise Malformed(f"{name} is not an object")
    return value


_ABOUT_A_RUN: dict[str, Callable[[dict[str, Any], bytes], Message]] = {
    "segment": lambda header, body: Segment(body, _object(header, "metadata")),
    "progress": lambda header, _: _progress(header),
    "result": lambda header, body: Finished(_result(header, body)),
    "failed": lambda header, _: _failed(header),
    "cancelled": lambda _, __: Stopped(),
    "unknown": lambda header, _: Unknown(_text(header, "message")),
}
_ABOUT_NONE: dict[str, Callable[[dict[str, Any]], Message]] = {
    "hello": lambda header: Hello(_integer(header, "protocol"), _text(header, "python", NAME_LIMIT)),
    "loaded": _loaded,
    "health": lambda header: Health(_object(header, "info")),
}
