"""From a call's arguments to a submitted job. Flows that both clients share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tenuto_client import audio, reads
from tenuto_client.errors import InvalidSetting
from tenuto_client.exchange import Link
from tenuto_client.steps import Do, Flow, OnBytes
from tenuto_client.submission import Reading, Recording, Work, submit

Source = str | Path | bytes | BinaryIO
"""A recording: a path, its bytes, or an open file."""


@dataclass(frozen=True, slots=True)
class Order:
    """What every kind of job takes besides its parameters."""

    kind: str
    model: str | None = None
    metadata: Mapping[str, str] | None = None
    idempotency_key: str | None = None


def create(
    link: Link,
    order: Order,
    parameters: Mapping[str, Any],
    models: dict[str, str],
    *,
    source: Source | None = None,
    on_bytes: OnBytes | None = None,
) -> Flow[tuple[Reading, Path | None]]:
    """Submit a program's job; also returns its journal file. `models` caches the chosen model by kind."""
    key = order.idempotency_key
    if key is not None and not (0 < len(key) <= 255 and key.isascii() and key.isprintable()):
        raise InvalidSetting("an idempotency key has 1 to 255 printable ASCII characters")
    model = order.model or models.get(order.kind)
    if model is None:
        model = yield from reads.model_for(link, order.kind)
        models[order.kind] = model
    document: dict[str, Any] = {"model": model, "parameters": dict(parameters)}
    if order.metadata:
        document["metadata"] = dict(order.metadata)
    if source is None:
        return (yield from _submit(link, Work(document, key=key)))
    original: Path | bytes = yield Do(lambda: _content(source))
    flac = audio.as_flac(original)
    content: Path | bytes = yield Do(flac.__enter__)
    try:
        recording: Recording = yield Do(lambda: Recording.of(content, _name(source)))
        return (yield from _submit(link, Work(document, recording, key, on_bytes=on_bytes)))
    finally:
        flac.__exit__(None, None, None)


def content_of(source: Source) -> bytes:
    """The bytes of a small recording."""
    content = _content(source)
    return content if isinstance(content, bytes) else content.read_bytes()


def _submit(link: Link, work: Work) -> Flow[tuple[Reading, Path | None]]:
    reading, entry = yield from submit(link, work)
    if entry is None:
        return reading, None
    entry.release()
    return reading, entry.path


def _name(source: Source) -> str | None:
    """The name of the file, if the source is one."""
    return Path(source).name if isinstance(source, str | Path) else None


def _content(source: Source) -> Path | bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, str | Path):
        return Path(source)
    return source.read()
