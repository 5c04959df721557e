"""The queries behind what jobs cost and made: sums, and the ledger's lines with their jobs and keys."""

import msgspec

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.jobs.days import Days

_WHERE = """
    from entry e join job j on j.id = e.job_id left join api_key k on k.id = j.key_id
    where e.account_id = :account_id and e.type = 'settle' and e.id >= :low and e.id < :high
      and e.created_at >= :since and e.created_at < :until
"""
_SUMS = "count(*) as jobs, cast(sum(e.revenue_micros) as bigint) as charged_micros"
_CHARGES: dict[str, str] = {
    "model": "select j.model as grouping, j.model as label, " + _SUMS + _WHERE + "group by 1, 2",
    "key": "select j.key_id as grouping, k.name as label, " + _SUMS + _WHERE + "group by 1, 2",
    "day": "select e.created_at / 86400000 as grouping, '' as label, " + _SUMS + _WHERE + "group by 1, 2",
}


class UsageRow(msgspec.Struct, frozen=True):
    """What one key's succeeded jobs of one model and day came to."""

    day: int
    """Since 1970, UTC."""
    model: str
    kind: str
    key_id: str
    jobs: int
    characters: int
    audio_ms: int
    charged_micros: int


class ChargeRow(msgspec.Struct, frozen=True):
    """What the settled jobs of one model, key or day were charged."""

    grouping: str | int
    """The model, the key's id, or the day since 1970."""
    label: str | None
    """The key's name; of a model its own name, of a day nothing."""
    jobs: int
    charged_micros: int


class LedgerRow(msgspec.Struct, frozen=True):
    """A line of the ledger, with the job and key behind it."""

    id: str
    type: str
    job_id: str | None
    available_micros: int
    held_micros: int
    revenue_micros: int
    note: str | None
    created_at: int
    model: str | None
    key_name: str | None


def charges(tx: Transaction, grouping: str, account_id: str, days: Days) -> list[ChargeRow]:
    """Settled jobs; found by the lines' ids, which tell the time."""
    return records.all_records(
        tx,
        ChargeRow,
        _CHARGES[grouping],
        account_id=account_id,
        low=days.low,
        high=days.high,
        since=days.since_ms,
        until=days.until_ms,
    )


def ledger_rows(tx: Transaction, account_id: str, *, after: str, limit: int) -> list[LedgerRow]:
    """The account's lines, oldest first, with what the job was and which key it came by."""
    return records.all_records(
        tx,
        LedgerRow,
        """select e.id, e.type, e.job_id, e.available_micros, e.held_micros, e.revenue_micros, e.note,
                  e.created_at, j.model, k.name as key_name
           from entry e left join job j on j.id = e.job_id left join api_key k on k.id = j.key_id
           where e.account_id = :account_id and e.id > :after order by e.id limit :limit""",
        account_id=account_id,
        after=after,
        limit=limit,
    )


def usage(tx: Transaction, account_id: str, days: Days, *, limit: int) -> list[UsageRow]:
    """Succeeded jobs by day (since 1970), model and key, from the index that has all that is added up."""
    return records.all_records(
        tx,
        UsageRow,
        """select created_at / 86400000 as day, model, kind, key_id, count(*) as jobs,
                  cast(sum(characters) as bigint) as characters,
                  cast(sum(audio_ms) as bigint) as audio_ms,
                  cast(sum(coalesce(charged_micros, 0)) as bigint) as charged_micros
           from job
           where account_id = :account_id and created_at >= :since and created_at < :until
             and audio_ms is not null
           group by 1, 2, 3, 4 order by 1 desc, 2, 4 limit :limit""",
        account_id=account_id,
        since=days.since_ms,
        until=days.until_ms,
        limit=limit,
    )
