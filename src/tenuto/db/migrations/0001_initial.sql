-- One text for SQLite and PostgreSQL. Times are milliseconds UTC, money is micro-CNY, JSON is text.

-- Who pays. `available` and `held` change in the same transaction as the entry that says why.
create table account (
    id text primary key,
    name text not null unique,
    -- JSON list of the models that the operator allows; null: all of them.
    models text,
    available_micros bigint not null default 0 check (available_micros >= 0),
    held_micros bigint not null default 0 check (held_micros >= 0),
    suspended_at bigint,
    created_at bigint not null
);

-- Who calls. Revoking or expiring takes effect on the next request: every request reads this row.
create table api_key (
    id text primary key,
    account_id text not null references account (id),
    name text not null,
    -- JSON list of the models that the caller allows; null: all that the account may use.
    models text,
    expires_at bigint,
    revoked_at bigint,
    -- Written at most once a minute; for people, not for decisions.
    last_used_at bigint,
    created_at bigint not null
);
create index api_key_of_account on api_key (account_id);

-- A key's secret as a SHA-256. Rotation adds a row; the old one gets an end.
create table api_key_secret (
    sha256 text primary key,
    key_id text not null references api_key (id),
    prefix text not null,
    last_four text not null,
    expires_at bigint,
    created_at bigint not null
);
create index api_key_secret_of_key on api_key_secret (key_id);

-- The ledger: append only. One row is one double entry; its four columns sum to zero.
create table entry (
    id text primary key,
    type text not null check (type in ('credit', 'hold', 'settle', 'void', 'adjust')),
    account_id text not null references account (id),
    job_id text,
    available_micros bigint not null,
    held_micros bigint not null,
    revenue_micros bigint not null,
    funding_micros bigint not null,
    note text,
    created_at bigint not null,
    check (available_micros + held_micros + revenue_micros + funding_micros = 0)
);
create index entry_of_account on entry (account_id, id);
create unique index entry_one_hold on entry (job_id) where type = 'hold';
create unique index entry_one_resolution on entry (job_id) where type in ('settle', 'void');

-- Which job a key's idempotency key belongs to, for ever.
create table idempotency (
    key_id text not null,
    idempotency_key text not null,
    body_sha256 text not null,
    job_id text not null,
    created_at bigint not null,
    primary key (key_id, idempotency_key)
);

-- Bytes under an id used for one write. A row appears when the bytes are durable.
create table blob (
    id text primary key,
    size_bytes bigint not null,
    sha256 text not null,
    -- CRC-32 of every 1 MiB block, 8 hex digits each.
    block_crcs text not null,
    -- Set by the sweep, in a transaction that sees no reference; the bytes go after it, then the row.
    condemned_at bigint,
    created_at bigint not null
);
create index blob_condemned on blob (condemned_at) where condemned_at is not null;

-- What a caller sees of bytes: a result (job_id set) or an input.
create table artifact (
    id text primary key,
    account_id text not null references account (id),
    job_id text,
    media_type text not null,
    size_bytes bigint not null,
    sha256 text not null,
    blob_id text references blob (id),
    metadata text not null,
    created_at bigint not null,
    erased_at bigint
);
create index artifact_of_blob on artifact (blob_id);

-- The durable job: the queue, and what is frozen when it is accepted.
create table job (
    id text primary key,
    account_id text not null references account (id),
    key_id text not null,
    kind text not null,
    model text not null,
    lane text not null,
    state text not null check (state in
        ('submitting', 'queued', 'running', 'succeeded', 'failed', 'cancelled', 'recovery_required')),
    -- The accepted body, word for word; the resolved parameters that the engine gets.
    body text not null,
    parameters text not null,
    metadata text not null,
    input_artifact_ids text not null,
    -- Whether the engine may run again after a lost outcome (0: it charges us by the call).
    rerunnable integer not null,
    hold_micros bigint not null check (hold_micros >= 0),
    price_micros bigint not null check (price_micros >= 0),
    price_unit text not null check (price_unit in ('job', 'audio_minute')),
    charged_micros bigint check (charged_micros >= 0 and charged_micros <= hold_micros),
    created_at bigint not null,
    deadline_at bigint not null,
    -- A rescued job that lost many workers waits until then; else 0.
    not_before_at bigint not null default 0,
    started_at bigint,
    finished_at bigint,
    -- Attempts made so far, and how many of them ended with the host or the worker lost.
    attempts integer not null default 0,
    hosts_lost integer not null default 0,
    workers_lost integer not null default 0,
    -- The newest attempt; set by claim, kept when the job ends.
    attempt_id text,
    artifact_id text references artifact (id),
    error_code text,
    error_message text,
    cancel_requested_at bigint,
    -- The sequence of the newest event; rises with every transition.
    event_sequence integer not null
);
create index job_of_account on job (account_id, id);
create index job_queue on job (lane, account_id, id) where state = 'queued';
create index job_lane on job (lane, id) where state = 'queued';
create index job_recovery on job (id) where state = 'recovery_required';

-- One run of a job by one worker. Every write of an attempt names its id and its state: the fence.
create table attempt (
    id text primary key,
    job_id text not null references job (id),
    number integer not null,
    worker_id text not null,
    -- running: the worker has it; recorded: the result is durable; ended: nothing more happens.
    state text not null check (state in ('running', 'recorded', 'ended')),
    outcome text,
    -- Raised by the heartbeat; a rescuer compares it with what it saw before.
    beat bigint not null default 0,
    progress text,
    -- Set, and committed, before a metered engine is called.
    fenced_at bigint,
    -- The recorded result: bytes that are durable and verified.
    blob_id text references blob (id),
    media_type text,
    result_metadata text,
    duration_ms bigint,
    -- What an operator needs to know of a bad end.
    evidence text,
    started_at bigint not null,
    ended_at bigint,
    unique (job_id, number)
);
create index attempt_open on attempt (worker_id) where state <> 'ended';
create index attempt_of_blob on attempt (blob_id);

-- Room to run, counted over all machines. A slot is busy when it names a job and an attempt.
create table slot (
    lane text not null,
    number integer not null,
    job_id text,
    attempt_id text,
    primary key (lane, number)
);
create index slot_of_attempt on slot (attempt_id);

-- Whose turn it is: accounts in a lane are served by the lowest number.
create table turn (
    lane text not null,
    account_id text not null,
    served bigint not null,
    primary key (lane, account_id)
);
create index turn_order on turn (lane, served);

-- A line of a job's life; written with every transition.
create table event (
    job_id text not null,
    sequence integer not null,
    type text not null,
    attempt_id text,
    detail text,
    at bigint not null,
    primary key (job_id, sequence)
);

-- Who runs. `lock_name` is a file whose lock the worker holds while it lives, on its own machine.
create table worker (
    id text primary key,
    machine text not null,
    pid integer not null,
    lock_name text not null,
    started_at bigint not null,
    seen_at bigint not null
);

-- What a worker offers, and how often in a row the engine failed to start there.
create table worker_model (
    worker_id text not null,
    model text not null,
    start_failures integer not null default 0,
    reason text,
    primary key (worker_id, model)
);
