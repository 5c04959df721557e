"""What has been, over HTTP: an account's usage, and a list of its jobs that can be searched."""

import re
from collections.abc import Mapping
from typing import Any

from tenuto.account.caller import Caller
from tenuto.api import jobs, query
from tenuto.api.answers import Answer, json_answer, json_list
from tenuto.api.call import Call, Handler
from tenuto.config import Settings
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.features.history import search, usage, usage_rows
from tenuto.features.history.days import DAY, read_days
from tenuto.features.history.rows import ChatUsageRow, JobUsage
from tenuto.features.history.search import Search
from tenuto.job.read import Job
from tenuto.kind.kinds import CHAT, kinds
from tenuto.kind.model import Model
from tenuto.money.rules import cny
from tenuto.rules import Form, Integer

DEFAULT_DAYS = 31
MAX_DAYS = 92
MAX_LINES = 10_000
MAX_SEARCHED_CHARACTERS = 200


def routes(settings: Settings) -> Mapping[str, Mapping[str, Handler]]:
    """Its routes. The list of jobs takes the place of the core's, which knows fewer filters."""
    return {"/v1/jobs": {"GET": list_jobs}, "/v1/usage": {"GET": show_usage}}


_FILTERS: query.Rules = {
    "q": Form(
        f"1 to {MAX_SEARCHED_CHARACTERS} characters, not only white space",
        lambda text: len(text) <= MAX_SEARCHED_CHARACTERS and search.pattern_of(text) is not None,
    ),
    "voice": query.text("the id of a voice"),
    "created_from": Integer(0, search.MAX_TIME_S),
    "created_before": Integer(0, search.MAX_TIME_S),
    **jobs.PAGE,
}
"""Beside the core's."""
_METADATA = re.compile(r"metadata\[(.{0,64})\]\Z", re.DOTALL)
"""A filter on the caller's metadata: `metadata[chapter]=3`."""
_USAGE = {"since": DAY, "until": DAY}


async def list_jobs(call: Call) -> Answer:
    """GET /v1/jobs, newest first."""

    def find(tx: Transaction, who: Caller) -> tuple[list[Job], str | None]:
        rules = {**jobs.filters(), **_FILTERS}
        filters = query.read_query(call, rules, families={_METADATA: "metadata[NAME]"})
        return search.list_jobs(
            tx,
            who,
            _search(filters),
            state=filters.get("state"),
            kind=filters.get("kind"),
            model=filters.get("model"),
            after=filters.get("after"),
            limit=query.limit_of(filters),
        )

    return json_list(*await call.read(find))


def _search(filters: Mapping[str, str]) -> Search:
    """The filters other than state, kind and model."""
    named = ((_METADATA.match(name), value) for name, value in filters.items())
    return Search(
        pattern=search.pattern_of(filters["q"]) if "q" in filters else None,
        voice_id=filters.get("voice"),
        metadata={match[1]: value for match, value in named if match is not None},
        created_from=_seconds(filters, "created_from"),
        created_before=_seconds(filters, "created_before"),
    )


def _seconds(filters: Mapping[str, str], name: str) -> int | None:
    return int(filters[name]) if name in filters else None


async def show_usage(call: Call) -> Answer:
    """GET /v1/usage: what was used, by day, model and key.

    A restricted key sees the lines of its own models.
    """
    caller = await call.authenticate()
    filters = query.read_query(call, _USAGE)
    since, until = read_days(call, filters, "since", "until", default=DEFAULT_DAYS, most=MAX_DAYS)

    def find(tx: Transaction) -> tuple[list[JobUsage], list[ChatUsageRow]]:
        return (
            usage.of_account(tx, caller.account_id, since=since, until=until, limit=MAX_LINES + 1),
            usage_rows.chat_usage(
                tx, caller.account_id, since_day=since.isoformat(), until_day=until.isoformat()
            ),
        )

    jobs, chats = await call.report(find)
    lines = [
        *(_job_line(line) for line in jobs),
        *(_chat_line(line, call.service.models.get(line.model)) for line in chats),
    ]
    if len(lines) > MAX_LINES:
        message = f"these days have more than {MAX_LINES} lines; ask for fewer days"
        raise InvalidRequest([Fault("since", "out_of_range", message)])
    if caller.key_models is not None:
        lines = [line for line in lines if line["model"] in caller.key_models]
    # Newest day first; within a day by model and key.
    lines.sort(key=lambda line: (line["model"], line["key_id"]))
    lines.sort(key=lambda line: str(line["day"]), reverse=True)
    days = {"since": since.isoformat(), "until": until.isoformat()}
    return json_answer(200, {"object": "list", **days, "data": lines})


def _job_line(line: JobUsage) -> dict[str, Any]:
    return {
        **_line(line.day, line.model, line.kind, line.key_id),
        "jobs": line.jobs,
        "characters": line.characters,
        "audio_seconds": line.audio_ms / 1000,
        "images": line.jobs if _makes_images(line.kind) else 0,
        "charged": cny(line.charged_micros),
    }


def _makes_images(name: str) -> bool:
    """Whether the kind makes images; False for one that is no longer installed."""
    kind = kinds().get(name)
    return kind is not None and kind.media_type.startswith("image/")


def _chat_line(line: ChatUsageRow, model: Model | None) -> dict[str, Any]:
    return {
        **_line(line.day, line.model, CHAT if model is None else model.kind, line.key_id),
        "chats": line.calls,
        "prompt_tokens": line.prompt_tokens,
        "completion_tokens": line.completion_tokens,
        "estimated_chats": line.estimated,
        "charged": cny(line.charged_micros),
    }


def _line(day: str, model: str, kind: str, key_id: str) -> dict[str, Any]:
    """The fields of every line; counts that do not apply to its kind are 0."""
    names = ("jobs", "characters", "images", "chats", "prompt_tokens", "completion_tokens", "estimated_chats")
    counts = dict.fromkeys(names, 0)
    known = {"object": "usage", "day": day, "model": model, "kind": kind, "key_id": key_id}
    return {**known, **counts, "audio_seconds": 0.0, "charged": cny(0), "currency": "CNY"}
