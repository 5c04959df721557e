"""How an answer is falsified: its status, its headers, its bytes, or the value of its JSON."""

import json
from collections.abc import Callable
from typing import Any

import httpx2

from servers.lying import Falsify

Edit = Callable[[Any], Any]

ACCEPTED = {
    "id": "job_01jd4k0a3v6c8e9g2h5m7n0p1q", "object": "job", "kind": "speech", "model": "fake/speech",
    "state": "queued", "created_at": 1, "started_at": None, "finished_at": None, "attempt": 0,
    "queue_position": 1, "progress": None, "input_artifact_ids": [], "artifacts": [], "result": None,
    "error": None, "billing": {"held": "0.000000", "charged": "0.000000", "currency": "CNY"}, "metadata": {},
    "cancel_requested": False,
}  # fmt: skip
"""The answer of a service that accepts anything."""


def answer(
    response: httpx2.Response,
    *,
    status: int | None = None,
    content: bytes | None = None,
    headers: dict[str, str | None] | None = None,
) -> httpx2.Response:
    """The response with another status, other content, or other headers (None: without it)."""
    dropped = {"content-length", "transfer-encoding", *(headers or {})}
    kept = [(name, value) for name, value in response.headers.multi_items() if name not in dropped]
    added = [(name, value) for name, value in (headers or {}).items() if value is not None]
    return httpx2.Response(
        status or response.status_code,
        headers=[*kept, *added],
        content=response.content if content is None else content,
        extensions=response.extensions,
    )


def with_status(status: int) -> Falsify:
    """Another status."""
    return lambda _, response: answer(response, status=status)


def with_header(name: str, value: str | None) -> Falsify:
    """Another value of a header, or none."""
    return lambda _, response: answer(response, headers={name: value})


def with_content(change: Callable[[bytes], bytes]) -> Falsify:
    """Other bytes."""
    return lambda _, response: answer(response, content=change(response.content))


def with_json(edit: Edit) -> Falsify:
    """Another body: what `edit` makes of the value."""

    def falsify(_: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        try:
            value = json.loads(response.content)
        except ValueError:
            return response
        return answer(response, content=json.dumps(edit(value)).encode())

    return falsify


def accepting() -> Falsify:
    """A service that takes whatever it is sent."""

    def falsify(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        headers: dict[str, str | None] = {"location": f"/v1/jobs/{ACCEPTED['id']}"}
        return answer(response, status=202, content=json.dumps(ACCEPTED).encode(), headers=headers)

    return falsify


def without(*names: str) -> Edit:
    """An object without some of its fields."""
    return lambda value: {name: field for name, field in value.items() if name not in names}


def having(**fields: Any) -> Edit:
    """An object with other values; a function is given the true one."""

    def edit(value: Any) -> Any:
        return value | {
            name: field(value.get(name)) if callable(field) else field for name, field in fields.items()
        }

    return edit


def each(edit: Edit) -> Edit:
    """A list, each of whose elements is changed."""
    return lambda value: [edit(one) for one in value]


def listed(edit: Edit) -> Edit:
    """A page, each of whose elements is changed."""
    return having(data=each(edit))


def where(condition: Callable[[Any], Any], edit: Edit) -> Edit:
    """Changed only if the condition holds of the true value."""
    return lambda value: edit(value) if condition(value) else value
