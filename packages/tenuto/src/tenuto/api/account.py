"""An account's balance, ledger and usage over HTTP."""

from typing import Any

from tenuto.account.caller import Caller
from tenuto.api import query
from tenuto.api.answers import Answer, json_answer, json_list
from tenuto.api.call import Call
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.features.history import usage as job_usage
from tenuto.features.history import usage_rows as usage
from tenuto.job.rows import JobUsage
from tenuto.kind.kinds import CHAT, kinds
from tenuto.kind.rules import Model
from tenuto.money import read as reads
from tenuto.money.read import Balance, LedgerEntry
from tenuto.money.rows import ChatUsageRow
from tenuto.money.rules import cny

DEFAULT_DAYS = 31
MAX_DAYS = 92
MAX_LINES = 10_000

_LEDGER = {"after": query.cursor("entry"), "limit": query.limit}
_USAGE = {"since": query.day, "until": query.day}


async def balance(call: Call) -> Answer:
    """GET /v1/account/balance."""

    def look(tx: Transaction, who: Caller) -> Balance:
        return reads.balance(tx, who.account_id)

    return json_answer(200, await call.read(look))


async def ledger(call: Call) -> Answer:
    """GET /v1/account/ledger, newest first."""

    def look(tx: Transaction, who: Caller) -> tuple[list[LedgerEntry], str | None]:
        filters = query.read_query(call, _LEDGER)
        return reads.ledger(tx, who.account_id, after=filters.get("after"), limit=query.limit_of(filters))

    return json_list(*await call.read(look))


async def show_usage(call: Call) -> Answer:
    """GET /v1/usage: what was used, by day, model and key.

    A restricted key sees the lines of its own models.
    """
    caller = await call.authenticate()
    filters = query.read_query(call, _USAGE)
    since, until = query.days(call, filters, "since", "until", default=DEFAULT_DAYS, most=MAX_DAYS)

    def look(tx: Transaction) -> tuple[list[JobUsage], list[ChatUsageRow]]:
        return (
            job_usage.of_account(tx, caller.account_id, since=since, until=until, limit=MAX_LINES + 1),
            usage.chat_usage(tx, caller.account_id, since_day=since.isoformat(), until_day=until.isoformat()),
        )

    jobs, chats = await call.report(look)
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
