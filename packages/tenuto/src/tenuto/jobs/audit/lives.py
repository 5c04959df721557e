"""The checks of jobs' lives: states and events, attempts, slots, idempotency keys (P1, P2, P8, P9, P10)."""

from tenuto.jobs import states
from tenuto.jobs.audit.check import ALL_AT_ONCE, Check

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
        "the job took a step that no job may take",
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
        "an event names a job or an attempt that is not there",
        _STORY,
        """select e.job_id as subject, e.sequence, e.type, e.attempt_id
           from event e left join job j on j.id = e.job_id left join attempt t on t.id = e.attempt_id
           where e.job_id > :after and e.job_id <= :last
             and (j.id is null or (e.attempt_id is not null and (t.id is null or t.job_id <> e.job_id)))""",
    ),
    Check(
        "job_state",
        "job",
        "the job's state is not what its newest event made of it",
        _STORY,
        """select j.id as subject, j.state, e.type as newest_event
           from job j join event e on e.job_id = j.id and e.sequence = j.event_sequence
           where j.id > :after and j.id <= :last
             and length(replace(:states, '|' || e.type || '=' || j.state || '|', '')) = length(:states)""",
    ),
    Check(
        "job_times",
        "job",
        "the job has ended without a moment, or goes on with one",
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
        "the job's attempts are not those that it counted",
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
        "an attempt goes on that is not the newest of a running job",
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
        "a paid call was followed by another run, and no operator had said so",
        "the engine's provider may have charged twice: look there, with `tenuto admin evidence SUBJECT`",
        """select j.id as subject, t.id as attempt, e.type as event
           from job j join attempt t on t.job_id = j.id and t.fenced_at is not null
           join event e on e.job_id = j.id and e.attempt_id = t.id
           where j.id > :after and j.id <= :last and e.type in ('released', 'host_lost', 'worker_lost')""",
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
        ALL_AT_ONCE,
        "an idempotency key names a job that is not its key's",
        "a resend under this key is answered with the wrong job, or not at all; report it",
        """select job_id as subject, key_id from idempotency except select id, key_id from job""",
    ),
    Check(
        "job_idempotency",
        ALL_AT_ONCE,
        "the job has no idempotency key: a resend would make another",
        _STORY,
        """select id as subject, key_id from job except select job_id, key_id from idempotency""",
    ),
    Check(
        "idempotency_twice",
        ALL_AT_ONCE,
        "two idempotency keys name the job",
        _STORY,
        """select job_id as subject, count(*) as keys from idempotency group by job_id having count(*) > 1""",
    ),
)
