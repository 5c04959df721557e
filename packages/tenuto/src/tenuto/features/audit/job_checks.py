"""The checks of jobs and their money (P1–P4, P8–P10): entries, balances, holds and charges; then states and
events, attempts, slots and idempotency keys.
"""

from tenuto.features.audit.check import ALL_AT_ONCE, Check
from tenuto.job import states

_COMPARE = "this is not repaired automatically: compare with the last backup whose audit is clean"
_LINES = f"`tenuto admin evidence SUBJECT` has the job's story; {_COMPARE}"
_STORY = "`tenuto admin evidence SUBJECT` has the job's attempts and events; report it with them"
_RESTART = "if it lasts after `tenuto serve` was started again, report it with `tenuto admin evidence`"

PATHS = (
    "|"
    + "|".join(
        f"{before or ''}>{event}"
        for before in (None, *states.EVENTS)
        for event in states.EVENTS
        if states.may_follow(before, event)
    )
    + "|"
)
"""Every pair of events that may follow each other, as text that both databases can search."""

STATES = "|" + "|".join(f"{event}={state}" for event, state in states.EVENTS.items()) + "|"
"""The state after each event."""

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
        "the account has a negative balance",
        _COMPARE,
        """select id as subject, available_micros, held_micros from account
           where id > :after and id <= :last and (available_micros < 0 or held_micros < 0)""",
    ),
    Check(
        "account_held",
        "account",
        "the account's held amount is not the sum of what its open jobs and calls hold",
        _COMPARE,
        """select a.id as subject, a.held_micros, j.held as open_jobs_hold, c.held as open_calls_hold
           from account a left join (
               select account_id, cast(sum(hold_micros) as bigint) as held from job
               where account_id > :after and account_id <= :last and state <> 'succeeded'
                 and state in ('submitting', 'queued', 'running', 'recovery_required') group by account_id
           ) j on j.account_id = a.id left join (
               select account_id, cast(sum(hold_micros) as bigint) as held from model_call
               where account_id > :after and account_id <= :last and state = 'open' group by account_id
           ) c on c.account_id = a.id
           where a.id > :after and a.id <= :last
             and a.held_micros <> coalesce(j.held, 0) + coalesce(c.held, 0)""",
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
        "the entry moves money in a way that its type does not allow",
        _COMPARE,
        """select id as subject, type, job_id, call_id, available_micros, held_micros, revenue_micros,
                  funding_micros
           from entry where id > :after and id <= :last and not case type
               when 'credit' then available_micros > 0 and held_micros = 0 and revenue_micros = 0
                                  and job_id is null and call_id is null
               when 'adjust' then held_micros = 0 and revenue_micros = 0 and call_id is null
                                  and (available_micros < 0) = (job_id is null) and available_micros <= 0
               when 'hold' then held_micros >= 0 and revenue_micros = 0 and funding_micros = 0
                                and (job_id is null) <> (call_id is null)
               when 'settle' then held_micros <= 0 and available_micros >= 0 and revenue_micros >= 0
                                  and funding_micros = 0 and (job_id is null) <> (call_id is null)
               else held_micros <= 0 and revenue_micros = 0 and funding_micros = 0
                    and (job_id is null) <> (call_id is null)
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
        "the job has no hold, or one that differs from the frozen amount",
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
        "the settlement differs from the charge, or the job was charged without success",
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
        "the charge does not follow from the frozen price, or exceeds the hold",
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
        "job",
        "the job has two holds, or two resolutions",
        _LINES,
        """select job_id as subject, count(*) as entries from entry
           where type = 'hold' and job_id > :after and job_id <= :last group by job_id having count(*) > 1
           union all
           select job_id, count(*) from entry
           where type in ('settle', 'void') and job_id > :after and job_id <= :last
           group by job_id having count(*) > 1""",
    ),
    Check(
        "entry_call",
        "entry",
        "the entry belongs to no call of its account",
        _COMPARE,
        """select e.id as subject, e.type, e.call_id from entry e left join model_call c on c.id = e.call_id
           where e.id > :after and e.id <= :last and e.call_id is not null
             and (c.id is null or c.account_id <> e.account_id)""",
    ),
    Check(
        "call_hold",
        "model_call",
        "the call has no hold, or one that differs from its own amount",
        _COMPARE,
        """select c.id as subject, c.hold_micros, h.held_micros as entry_held
           from model_call c left join entry h on h.call_id = c.id and h.type = 'hold'
           where c.id > :after and c.id <= :last
             and (h.id is null or h.held_micros <> c.hold_micros or h.account_id <> c.account_id)""",
    ),
    Check(
        "call_resolution",
        "model_call",
        "the call's settlement or release does not fit its state and its charge",
        _COMPARE,
        """select c.id as subject, c.state, c.hold_micros, c.charged_micros, r.type as resolution,
                  r.revenue_micros as entry_revenue, r.held_micros as entry_held
           from model_call c left join entry r on r.call_id = c.id and r.type in ('settle', 'void')
           where c.id > :after and c.id <= :last
             and ((c.state = 'open') <> (r.id is null)
                  or (r.id is not null
                      and ((c.state = 'settled') <> (r.type = 'settle')
                           or r.revenue_micros <> coalesce(c.charged_micros, 0)
                           or r.held_micros <> -c.hold_micros or r.account_id <> c.account_id)))""",
    ),
    Check(
        "call_charge",
        "model_call",
        "the charge does not follow from the frozen prices and the tokens, or is not in the usage",
        _COMPARE,
        """select c.id as subject, c.charged_micros, c.hold_micros, c.input_price_micros,
                  c.output_price_micros, c.prompt_tokens, c.completion_tokens,
                  u.charged_micros as usage_charged
           from model_call c left join chat_usage u on u.id = c.id
           where c.id > :after and c.id <= :last and c.state = 'settled'
             and (u.id is null or u.charged_micros <> c.charged_micros or u.account_id <> c.account_id
                  or c.charged_micros <> case
                      when (c.prompt_tokens * c.input_price_micros
                            + c.completion_tokens * c.output_price_micros + 999999) / 1000000 < c.hold_micros
                      then (c.prompt_tokens * c.input_price_micros
                            + c.completion_tokens * c.output_price_micros + 999999) / 1000000
                      else c.hold_micros end)""",
    ),
    Check(
        "job_events",
        "job",
        "the job's events have a gap",
        _STORY,
        """select j.id as subject, j.event_sequence, e.written, e.newest
           from job j left join (
               select job_id, count(*) as written, min(sequence) as oldest, max(sequence) as newest from event
               where job_id > :after and job_id <= :last group by job_id) e on e.job_id = j.id
           where j.id > :after and j.id <= :last
             and (e.written is null or e.oldest <> 0 or e.newest <> j.event_sequence
                  or e.written <> j.event_sequence + 1)""",
    ),
    Check(
        "event_order",
        "event",
        "the job made a transition that is not allowed",
        _STORY,
        """select e.job_id as subject, e.sequence, p.type as was, e.type as came
           from event e left join event p on p.job_id = e.job_id and p.sequence = e.sequence - 1
           where e.job_id > :after and e.job_id <= :last
             and length(replace(:paths, '|' || coalesce(p.type, '') || '>' || e.type || '|', ''))
                 = length(:paths)""",
    ),
    Check(
        "event_subject",
        "event",
        "an event names a job or an attempt that does not exist",
        _STORY,
        """select e.job_id as subject, e.sequence, e.type, e.attempt_id
           from event e left join job j on j.id = e.job_id left join attempt t on t.id = e.attempt_id
           where e.job_id > :after and e.job_id <= :last
             and (j.id is null or (e.attempt_id is not null and (t.id is null or t.job_id <> e.job_id)))""",
    ),
    Check(
        "job_state",
        "job",
        "the job's state is not the one that its newest event leads to",
        _STORY,
        """select j.id as subject, j.state, e.type as newest_event
           from job j join event e on e.job_id = j.id and e.sequence = j.event_sequence
           where j.id > :after and j.id <= :last
             and length(replace(:states, '|' || e.type || '=' || j.state || '|', '')) = length(:states)""",
    ),
    Check(
        "job_times",
        "job",
        "the job has ended without an end time, or has one and has not ended",
        _STORY,
        """select id as subject, state, attempts, started_at, finished_at from job
           where id > :after and id <= :last
             and ((state in ('succeeded', 'failed', 'cancelled')) <> (finished_at is not null)
                  or (attempts > 0) <> (started_at is not null))""",
    ),
    Check(
        "job_key",
        "job",
        "the job was submitted with a key that its account does not have",
        _STORY,
        """select j.id as subject, j.account_id, j.key_id, k.account_id as key_account
           from job j left join api_key k on k.id = j.key_id
           where j.id > :after and j.id <= :last and (k.id is null or k.account_id <> j.account_id)""",
    ),
    Check(
        "job_attempts",
        "job",
        "the job does not have as many attempts as it counted",
        _STORY,
        """select j.id as subject, j.attempts, t.made, t.newest, j.attempt_id
           from job j left join (
               select job_id, count(*) as made, max(number) as newest from attempt
               where job_id > :after and job_id <= :last group by job_id) t on t.job_id = j.id
           left join attempt n on n.id = j.attempt_id
           where j.id > :after and j.id <= :last
             and (coalesce(t.made, 0) <> j.attempts or coalesce(t.newest, 0) <> j.attempts
                  or coalesce(n.number, 0) <> j.attempts or (n.id is not null and n.job_id <> j.id)
                  or (j.attempt_id is not null and n.id is null))""",
    ),
    Check(
        "attempt_open",
        "job",
        "an attempt is open that is not the newest of a running job",
        _RESTART,
        """select t.id as subject, t.state, j.id as job, j.state as job_state
           from job j join attempt t on t.job_id = j.id
           where j.id > :after and j.id <= :last and t.state <> 'ended'
             and (coalesce(j.attempt_id, '') <> t.id
                  or not (j.state = 'running'
                          or (j.state = 'recovery_required' and t.state = 'recorded')))""",
    ),
    Check(
        "job_running",
        "job",
        "the job runs without an open attempt of its own",
        _STORY,
        """select j.id as subject, j.attempt_id, t.state as attempt_state
           from job j left join attempt t on t.id = j.attempt_id
           where j.id > :after and j.id <= :last and j.state = 'running'
             and (t.id is null or t.state = 'ended')""",
    ),
    Check(
        "paid_twice",
        "job",
        "a paid call was followed by another run without an operator's decision",
        "the engine's provider may have charged twice: look there, with `tenuto admin evidence SUBJECT`",
        """select j.id as subject, t.id as attempt, e.type as event
           from job j join attempt t on t.job_id = j.id and t.fenced_at is not null
           join event e on e.job_id = j.id and e.attempt_id = t.id
           where j.id > :after and j.id <= :last
             and e.type in ('released', 'host_lost', 'unforeseen', 'worker_lost')""",
    ),
    Check(
        "job_slot",
        "job",
        "the job runs without a slot, or with two",
        _RESTART,
        """select j.id as subject, coalesce(s.taken, 0) as slots from job j
           left join (select job_id, count(*) as taken from slot where job_id is not null group by job_id) s
             on s.job_id = j.id
           where j.id > :after and j.id <= :last and j.state = 'running' and coalesce(s.taken, 0) <> 1""",
    ),
    Check(
        "slot_taken",
        ALL_AT_ONCE,
        "the slot is taken by an attempt that is over, or by another lane's",
        _RESTART,
        """select s.lane || ' ' || s.number as subject, s.job_id, s.attempt_id, j.state, j.lane as job_lane
           from slot s left join attempt t on t.id = s.attempt_id left join job j on j.id = s.job_id
           where (s.job_id is not null or s.attempt_id is not null)
             and (j.id is null or t.id is null or t.job_id <> j.id or t.state = 'ended'
                  or j.state <> 'running' or j.attempt_id <> t.id or j.lane <> s.lane)""",
    ),
    Check(
        "idempotency_job",
        "idempotency",
        "an idempotency key names a job of another API key",
        "a resend under this key is answered with the wrong job, or not at all; report it",
        """select i.job_id as subject, i.key_id from idempotency i left join job j on j.id = i.job_id
           where i.job_id > :after and i.job_id <= :last and (j.id is null or j.key_id <> i.key_id)""",
    ),
    Check(
        "job_idempotency",
        "job",
        "the job has no idempotency key: a resend would make another",
        _STORY,
        """select j.id as subject, j.key_id from job j
           left join idempotency i on i.job_id = j.id and i.key_id = j.key_id
           where j.id > :after and j.id <= :last and i.job_id is null""",
    ),
    Check(
        "idempotency_twice",
        "idempotency",
        "two idempotency keys name the job",
        _STORY,
        """select job_id as subject, count(*) as keys from idempotency
           where job_id > :after and job_id <= :last group by job_id having count(*) > 1""",
    ),
)
