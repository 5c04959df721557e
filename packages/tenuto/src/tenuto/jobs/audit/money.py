"""The checks of money: entries, balances, holds, resolutions, charges (P3, P4)."""

from tenuto.jobs.audit.check import ALL_AT_ONCE, Check

_COMPARE = "nothing here is mended by itself: compare with the last backup whose audit is clean"
_LINES = f"`tenuto admin evidence SUBJECT` has the job's story; {_COMPARE}"

CHECKS: tuple[Check, ...] = (
    Check(
        "account_balance",
        "account",
        "the account's balances are not the sums of its entries",
        _COMPARE,
        """select a.id as subject, a.available_micros, e.available as entries_available, a.held_micros,
                  e.held as entries_held
           from account a left join (
               select account_id, cast(sum(available_micros) as bigint) as available,
                      cast(sum(held_micros) as bigint) as held
               from entry where account_id > :after and account_id <= :last group by account_id
           ) e on e.account_id = a.id
           where a.id > :after and a.id <= :last
             and (a.available_micros <> coalesce(e.available, 0) or a.held_micros <> coalesce(e.held, 0))""",
    ),
    Check(
        "account_overdraft",
        "account",
        "the account has less than nothing",
        _COMPARE,
        """select id as subject, available_micros, held_micros from account
           where id > :after and id <= :last and (available_micros < 0 or held_micros < 0)""",
    ),
    Check(
        "account_held",
        "account",
        "the account holds something else than its open jobs do",
        _COMPARE,
        """select a.id as subject, a.held_micros, j.held as open_jobs_hold from account a left join (
               select account_id, cast(sum(hold_micros) as bigint) as held from job
               where account_id > :after and account_id <= :last
                 and state not in ('succeeded', 'failed', 'cancelled') group by account_id
           ) j on j.account_id = a.id
           where a.id > :after and a.id <= :last and a.held_micros <> coalesce(j.held, 0)""",
    ),
    Check(
        "entry_sum",
        "entry",
        "the entry does not sum to zero",
        _COMPARE,
        """select id as subject, type, job_id from entry
           where id > :after and id <= :last
             and available_micros + held_micros + revenue_micros + funding_micros <> 0""",
    ),
    Check(
        "entry_form",
        "entry",
        "the entry moves money as its type never does",
        _COMPARE,
        """select id as subject, type, job_id, available_micros, held_micros, revenue_micros, funding_micros
           from entry where id > :after and id <= :last and not case type
               when 'credit' then available_micros > 0 and held_micros = 0 and revenue_micros = 0
                                  and job_id is null
               when 'adjust' then held_micros = 0 and revenue_micros = 0
                                  and (available_micros < 0) = (job_id is null) and available_micros <= 0
               when 'hold' then held_micros >= 0 and revenue_micros = 0 and funding_micros = 0
                                and job_id is not null
               when 'settle' then held_micros <= 0 and available_micros >= 0 and revenue_micros >= 0
                                  and funding_micros = 0 and job_id is not null
               else held_micros <= 0 and revenue_micros = 0 and funding_micros = 0 and job_id is not null
           end""",
    ),
    Check(
        "entry_job",
        "entry",
        "the entry belongs to no job of its account",
        _COMPARE,
        """select e.id as subject, e.type, e.job_id from entry e left join job j on j.id = e.job_id
           where e.id > :after and e.id <= :last and e.job_id is not null
             and (j.id is null or j.account_id <> e.account_id)""",
    ),
    Check(
        "job_hold",
        "job",
        "the job has no hold, or another than it froze",
        _LINES,
        """select j.id as subject, j.hold_micros, h.held_micros as entry_held
           from job j left join entry h on h.job_id = j.id and h.type = 'hold'
           where j.id > :after and j.id <= :last
             and (h.id is null or h.held_micros <> j.hold_micros or h.account_id <> j.account_id)""",
    ),
    Check(
        "job_resolution",
        "job",
        "the job is final without a resolution, or open with one",
        _LINES,
        """select j.id as subject, j.state, r.type as resolution from job j
           left join entry r on r.job_id = j.id and r.type in ('settle', 'void')
           where j.id > :after and j.id <= :last
             and (j.state in ('succeeded', 'failed', 'cancelled')) <> (r.id is not null)""",
    ),
    Check(
        "job_settlement",
        "job",
        "the job is not settled at what it was charged, or was charged without success",
        _LINES,
        """select j.id as subject, j.state, j.hold_micros, j.charged_micros, r.type as resolution,
                  r.revenue_micros as entry_revenue, r.held_micros as entry_held
           from job j left join entry r on r.job_id = j.id and r.type in ('settle', 'void')
           where j.id > :after and j.id <= :last
             and ((j.state = 'succeeded') <> (j.charged_micros is not null)
                  or (r.id is not null
                      and ((j.state = 'succeeded') <> (r.type = 'settle')
                           or r.revenue_micros <> coalesce(j.charged_micros, 0)
                           or r.held_micros <> -j.hold_micros or r.account_id <> j.account_id)))""",
    ),
    Check(
        "job_charge",
        "job",
        "the charge is not what the frozen price makes of it, or above the hold",
        _LINES,
        """select j.id as subject, j.charged_micros, j.hold_micros, j.price_micros, j.price_unit,
                  t.duration_ms
           from job j left join attempt t on t.id = j.attempt_id
           where j.id > :after and j.id <= :last and j.charged_micros is not null
             and (j.charged_micros > j.hold_micros
                  or (j.charged_micros < j.hold_micros
                      and j.charged_micros <> case j.price_unit
                          when 'job' then j.price_micros
                          else (coalesce(t.duration_ms, -1) * j.price_micros + 59999) / 60000 end)
                  or (j.charged_micros = j.hold_micros
                      and j.hold_micros > case j.price_unit
                          when 'job' then j.price_micros
                          else (coalesce(t.duration_ms, -1) * j.price_micros + 59999) / 60000 end))""",
    ),
    Check(
        "entry_twice",
        ALL_AT_ONCE,
        "the job has two holds, or two resolutions",
        _LINES,
        """select job_id as subject, count(*) as entries from entry
           where type in ('hold', 'settle', 'void')
           group by job_id, case when type = 'hold' then 1 else 2 end having count(*) > 1""",
    ),
)
