"""The audit: every balance and every job's money derived again from the ledger; slots against attempts.

Read only. A healthy database gives no finding at any moment, also under load: each check is one
statement, or reads rows that change together.
"""

from dataclasses import dataclass

from tenuto.db.database import Transaction

_CHECKS: tuple[tuple[str, str], ...] = (
    (
        "an account's balances are not the sums of its entries",
        """select a.id as subject from account a left join (
               select account_id, sum(available_micros) as available, sum(held_micros) as held
               from entry group by account_id) e on e.account_id = a.id
           where a.available_micros <> coalesce(e.available, 0) or a.held_micros <> coalesce(e.held, 0)""",
    ),
    (
        "an entry does not sum to zero",
        """select id as subject from entry
           where available_micros + held_micros + revenue_micros + funding_micros <> 0""",
    ),
    (
        "a job has no hold, or another than it froze",
        """select j.id as subject from job j left join entry h on h.job_id = j.id and h.type = 'hold'
           where h.id is null or h.held_micros <> j.hold_micros or h.account_id <> j.account_id""",
    ),
    (
        "a final job has no resolution, or an open one has one",
        """select j.id as subject from job j
           left join entry r on r.job_id = j.id and r.type in ('settle', 'void')
           where (j.state in ('succeeded', 'failed', 'cancelled')) <> (r.id is not null)""",
    ),
    (
        "a succeeded job is not settled at what it was charged, or another one is settled",
        """select j.id as subject from job j join entry r on r.job_id = j.id and r.type in ('settle', 'void')
           where (j.state = 'succeeded') <> (r.type = 'settle')
              or r.revenue_micros <> coalesce(j.charged_micros, 0) or r.held_micros <> -j.hold_micros
              or r.account_id <> j.account_id""",
    ),
    (
        "an account holds something else than its open jobs do",
        """select a.id as subject from account a left join (
               select account_id, sum(hold_micros) as held from job
               where state not in ('succeeded', 'failed', 'cancelled') group by account_id
           ) j on j.account_id = a.id where a.held_micros <> coalesce(j.held, 0)""",
    ),
    (
        "a succeeded job has no artifact, or another one has one",
        """select j.id as subject from job j left join artifact a on a.id = j.artifact_id
           where (j.state = 'succeeded') <> (a.id is not null)""",
    ),
    (
        "an artifact has no bytes, or they are condemned",
        """select a.id as subject from artifact a left join blob b on b.id = a.blob_id
           where a.erased_at is null
             and (b.id is null or b.condemned_at is not null or b.size_bytes <> a.size_bytes
                  or b.sha256 <> a.sha256)""",
    ),
    (
        "a running job has no open attempt of its own",
        """select j.id as subject from job j left join attempt t on t.id = j.attempt_id
           where j.state = 'running' and (t.id is null or t.state = 'ended')""",
    ),
    (
        "a slot is busy with an attempt that is over, or a running attempt has no slot",
        """select t.id as subject from attempt t left join slot s on s.attempt_id = t.id
           join job j on j.id = t.job_id
           where (t.state <> 'ended' and j.state = 'running') <> (s.attempt_id is not null)
             and (t.state <> 'ended' or s.attempt_id is not null)
             and not (t.state = 'recorded' and j.state = 'recovery_required')""",
    ),
    (
        "an idempotency key names a job that does not exist",
        """select i.job_id as subject from idempotency i left join job j on j.id = i.job_id
           where j.id is null""",
    ),
    (
        "a job's events have a gap",
        """select j.id as subject from job j
           left join (select job_id, count(*) as written, max(sequence) as newest from event
                      group by job_id) e on e.job_id = j.id
           where e.written is null or e.newest <> j.event_sequence or e.written <> j.event_sequence + 1""",
    ),
)

MAX_FINDINGS = 100
"""So many are listed per check."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that should not be."""

    what: str
    subject: str


def audit(tx: Transaction) -> list[Finding]:
    """All findings; an empty list means that records and money agree."""
    return [
        Finding(what, str(row["subject"]))
        for what, query in _CHECKS
        for row in tx.all(f"{query} limit {MAX_FINDINGS}")
    ]
