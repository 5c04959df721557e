"""The queries behind what jobs cost: the ledger's lines with their jobs and keys. Changes nothing."""

from tenuto.db.database import Row, Transaction
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


def charges(tx: Transaction, grouping: str, account_id: str, days: Days) -> list[Row]:
    """Settled jobs; found by the lines' ids, which tell the time."""
    return tx.all(
        _CHARGES[grouping],
        account_id=account_id,
        low=days.low,
        high=days.high,
        since=days.since_ms,
        until=days.until_ms,
    )


def lines(tx: Transaction, account_id: str, *, after: str, limit: int) -> list[Row]:
    """The account's lines, oldest first, with what the job was and which key it came by."""
    return tx.all(
        """select e.id, e.type, e.job_id, e.available_micros, e.held_micros, e.revenue_micros, e.note,
                  e.created_at, j.model, k.name as key_name
           from entry e left join job j on j.id = e.job_id left join api_key k on k.id = j.key_id
           where e.account_id = :account_id and e.id > :after order by e.id limit :limit""",
        account_id=account_id,
        after=after,
        limit=limit,
    )
