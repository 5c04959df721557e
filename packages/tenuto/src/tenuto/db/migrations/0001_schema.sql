-- One text for SQLite and PostgreSQL. Times are milliseconds UTC, money is micro-CNY, JSON is text.

-- --- accounts, keys, people ----------------------------------------------------------------------------------------

-- Who pays. `available` and `held` change in the same transaction as the entry that says why.
create table account (
    id text primary key,
    name text not null unique,
    -- What the name is compared by: normalised, without case (`accounts.rules.name_key`).
    name_key text not null unique,
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
-- An account's keys are listed in pages, newest first, and those that work are counted, however many it has revoked.
create index api_key_listed on api_key (account_id, id);
create index api_key_live on api_key (account_id, expires_at) where revoked_at is null;

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

-- Who signs in at the studio: an account's password. An account without a row is used with keys alone.
create table login (
    account_id text primary key references account (id),
    -- argon2id, its parameters and salt within.
    password_hash text not null,
    -- 1: the operator's pages are open to it. The set-up link alone sets it.
    operator integer not null,
    -- What the studio's calls are bound, limited and counted under: a key without a secret, so that nobody can send it.
    key_id text not null unique references api_key (id),
    created_at bigint not null,
    -- When the password was last set; a session is begun only by who knew the newest one.
    changed_at bigint not null
);

-- Who is signed in: the SHA-256 of what the browser's cookie holds.
create table web_session (
    sha256 text primary key,
    account_id text not null references account (id),
    created_at bigint not null,
    -- Written every half minute while it is used; a process that is killed loses that much.
    seen_at bigint not null,
    expires_at bigint not null
);
create index web_session_of_account on web_session (account_id);

-- A link that sets a password, once: the SHA-256 of its token. The row goes when the link is used.
create table invitation (
    sha256 text primary key,
    -- Whose password it sets; null: that of the operator, whoever sets the service up.
    account_id text references account (id),
    created_at bigint not null,
    expires_at bigint not null
);
create index invitation_of_account on invitation (account_id);

-- --- money ---------------------------------------------------------------------------------------------------------

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
-- The few lines of a job that are neither its hold nor its end: those have an index each, so that a job's lines
-- are found without one over all of the ledger.
create index entry_remark on entry (job_id) where type = 'adjust' and job_id is not null;

-- What chats used: append only, a row for what one key used of one model between two writes of a process.
-- Written after the answers; a process that is killed loses what it had not written yet, a twentieth of a second.
create table chat_usage (
    -- Made before the write, so that a write of unknown outcome is repeated without counting twice.
    id text primary key,
    account_id text not null references account (id),
    key_id text not null,
    model text not null,
    -- The day in UTC on which the answers ended, as YYYY-MM-DD.
    day text not null,
    calls bigint not null check (calls > 0),
    -- How many of these calls have tokens that were estimated, because the caller left before the model had told them.
    estimated bigint not null default 0,
    prompt_tokens bigint not null check (prompt_tokens >= 0),
    completion_tokens bigint not null check (completion_tokens >= 0)
);
create index chat_usage_of_account on chat_usage (account_id, day);

-- --- bytes ---------------------------------------------------------------------------------------------------------

-- The store of bytes that this database speaks of, by the random id that lies in the store, too (store.json). Written
-- once, by the first start; every later start compares the two. Not in backups: a restored service has ids of its own.
create table store (
    number integer primary key check (number = 1),
    id text not null,
    paired_at bigint not null
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
    -- Bytes that never got a row (their writer died, or stands still) are removed by the sweep when they are a day old.
    -- The row that condemned them stays for ever as their mark, so that a writer that wakes up late cannot record them.
    -- Set when the bytes are gone; unset by the sweep that finds the id written once more all the same.
    is_removed integer not null default 0,
    created_at bigint not null
);
create index blob_condemned on blob (condemned_at) where condemned_at is not null;
create index blob_to_remove on blob (condemned_at) where condemned_at is not null and is_removed = 0;

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
-- For retention: what there is to erase, by its age.
create index artifact_input_kept on artifact (created_at) where job_id is null and erased_at is null;
-- What an account has stored by uploading, for its limit.
create index artifact_inputs on artifact (account_id, size_bytes) where job_id is null and erased_at is null;

-- Which record a key's upload made, where it sent an idempotency key with it.
create table upload_key (
    key_id text not null references api_key (id),
    idempotency_key text not null,
    -- Of everything that makes the request what it is: where to, the headers that count, the body.
    request_sha256 text not null,
    record_id text not null,
    created_at bigint not null,
    primary key (key_id, idempotency_key)
);

-- --- voices --------------------------------------------------------------------------------------------------------

-- A voice: one recording for ever, and what goes with it. Only its name may change.
create table voice (
    id text primary key,
    -- Whose own voice it is; null: everybody's who has a synthesis model in sight.
    account_id text references account (id),
    kind text not null check (kind in ('shared', 'official', 'emotion', 'own')),
    name text not null,
    -- JSON list of the languages that it was made for; empty: nobody said.
    languages text not null,
    -- JSON object of parameters that hold where the caller gives none.
    default_parameters text not null,
    -- JSON object for the engine: `style`, a preset, and `emotion`, eight numbers. Empty: the recording says all.
    profile text not null,
    profile_version text,
    -- JSON object that says how the recording was made; null: it was uploaded.
    provenance text,
    blob_id text not null references blob (id),
    duration_ms integer not null,
    sample_rate integer not null,
    channels integer not null,
    created_at bigint not null,
    -- 1: shipped with the program, installed at start.
    built_in integer not null,
    -- A built-in voice that this release has no more: not listed, but who knows its id may go on using it.
    retired_at bigint,
    check ((kind = 'own') = (account_id is not null))
);
create index voice_of_account on voice (account_id, id);
create index voice_of_blob on voice (blob_id);

-- The voice that an account chose for a content account of its own; '' is the general default.
create table voice_preference (
    account_id text not null references account (id),
    content_account text not null,
    voice_id text not null references voice (id),
    updated_at bigint not null,
    primary key (account_id, content_account)
);
create index voice_preference_of_voice on voice_preference (voice_id);

-- --- jobs ----------------------------------------------------------------------------------------------------------

-- Which job a key's idempotency key belongs to, for ever.
create table idempotency (
    key_id text not null,
    idempotency_key text not null,
    body_sha256 text not null,
    job_id text not null,
    created_at bigint not null,
    primary key (key_id, idempotency_key)
);

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
    -- How much there is to speak, in characters; frozen at acceptance, for the text itself may be erased.
    characters integer not null default 0,
    -- How much audio it made or recognised, in milliseconds; 0: none. Set with `succeeded`, from its attempt; else null.
    audio_ms bigint,
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
    -- How often the job's process was lost while other runs were in it: never counted against the job, but from
    -- the second time on it runs alone. Set with the job's return to the queue.
    losses_shared integer not null default 0,
    -- The newest attempt; set by claim, kept when the job ends.
    attempt_id text,
    artifact_id text references artifact (id),
    error_code text,
    error_message text,
    cancel_requested_at bigint,
    -- When the owner, or the operator's retention, had the job's content erased: body, parameters, result.
    erased_at bigint,
    -- The sequence of the newest event; rises with every transition.
    event_sequence integer not null
);
create index job_of_account on job (account_id, id);
-- An account's jobs that have not succeeded are listed by their state, however many have.
create index job_by_state on job (account_id, state, id) where state <> 'succeeded';
-- An account's jobs are listed by model, kind and state, alone or together, in the time that a page takes, also when
-- nothing fits: for each model that it has used and each state there is one look.
create index job_listed on job (account_id, model, state, id);
-- What an account used on some days is added up from this index alone: rows are long, for they hold what was asked.
create index job_used on job (account_id, created_at, model, kind, key_id, characters, audio_ms, charged_micros)
    where audio_ms is not null;
create index job_queue on job (lane, account_id, id) where state = 'queued';
create index job_lane on job (lane, id) where state = 'queued';
-- What a worker may take is found by model: twenty thousand jobs that wait for another's engine are not looked through.
-- Whatever is known of the queue, this index is used: PostgreSQL counts states when it analyzes a table, and of a queue
-- that came since it believed that it was empty; then any index of what is queued would do. Of `state || ''` it knows
-- nothing, and no other index holds just these rows.
create index job_in_line on job (lane, model, account_id, id) where state || '' = 'queued';
create index job_recovery on job (id) where state = 'recovery_required';
-- For retention, as `artifact_input_kept`.
create index job_kept on job (finished_at) where finished_at is not null and erased_at is null;

-- A line of a job's life; written with every transition.
create table event (
    job_id text not null,
    sequence integer not null,
    type text not null,
    attempt_id text,
    detail text,
    -- Who decided about a job that waited for an operator, and why. Shown to operators, never to callers.
    operator text,
    note text,
    at bigint not null,
    primary key (job_id, sequence)
);

-- One run of a job by one worker. Every write of an attempt names its id and its state: the fence.
create table attempt (
    id text primary key,
    job_id text not null references job (id),
    number integer not null,
    worker_id text not null,
    -- Where it ran, and when its worker was last heard of: the worker's own row goes after some minutes away.
    machine text,
    pid integer,
    heard_at bigint,
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

-- A piece of speech that may be heard while its job runs. A row appears when its bytes are durable; it is kept,
-- whatever becomes of the attempt that made it.
create table segment (
    id text primary key,
    job_id text not null references job (id),
    attempt_id text not null references attempt (id),
    -- From 0 without gaps within its attempt.
    sequence integer not null check (sequence >= 0),
    media_type text not null,
    size_bytes bigint not null,
    sha256 text not null,
    duration_ms bigint not null,
    -- Null once the job's content was erased.
    blob_id text references blob (id),
    created_at bigint not null,
    unique (attempt_id, sequence)
);
create index segment_of_job on segment (job_id);
create index segment_of_blob on segment (blob_id);

-- A finished part of a recognition job: what one engine wrote about some minutes of the recording. Kept over
-- attempts, so that a crash loses one part at most; removed soon after the job is final.
create table part (
    job_id text not null references job (id),
    -- Whose transcript it is: segment_text or word_timestamps.
    role text not null,
    number integer not null,
    -- The span among the recording's 16 kHz samples, and the engine: a part is used again for just these.
    start_frame bigint not null,
    end_frame bigint not null,
    model_id text not null,
    model_revision text not null,
    -- JSON object as the engine gave it, checked.
    transcript text not null,
    attempt_id text not null,
    created_at bigint not null,
    primary key (job_id, role, number)
);

-- A recording that a job was bound to when it was accepted: it stays until the job is final, also when its voice
-- is deleted. Without a foreign key, for the blob may go before the job's row does.
create table job_recording (
    job_id text not null references job (id),
    blob_id text not null,
    primary key (job_id, blob_id)
);
create index job_recording_of_blob on job_recording (blob_id);

-- --- the queue's turns and limits ----------------------------------------------------------------------------------

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

-- How many jobs an account may add to its queue in a lane before somebody counts again. Taken and noted by
-- submissions, under the lock of the account's row; see `jobs/quota.py`.
create table queue_room (
    account_id text not null references account (id),
    lane text not null,
    room bigint not null check (room >= 0),
    primary key (account_id, lane)
);

-- --- workers and their duties --------------------------------------------------------------------------------------

-- Who runs. `lock_name` is a file whose lock the worker holds while it lives, on its own machine.
create table worker (
    id text primary key,
    machine text not null,
    pid integer not null,
    lock_name text not null,
    -- What it said of itself at start: each model that it was to run, with the reason why not (JSON).
    abilities text not null default '[]',
    -- What its engines may take of its machine together, in MiB; 0: no limit.
    engine_memory_mib bigint not null default 0,
    -- The engines that are loaded, and the MiB that each was measured to take (JSON); told when it has changed.
    engines text not null default '{}',
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

-- The service's audit of its own records: one row. A worker begins by setting `began_at` where the last beginning
-- is an hour past, so that of all workers one does it; if it dies meanwhile, the next hour's goes through it all.
create table audit (
    number integer primary key check (number = 1),
    began_at bigint not null,
    worker_id text not null,
    -- The rest is of the newest audit that came to its end; null before the first has.
    ended_at bigint,
    rows_seen bigint,
    -- JSON object: how many rows each check found. Empty: records and money agree.
    findings text
);

-- The service's look for bytes and rows that nothing refers to: one row. A worker begins by setting `began_at` where
-- the last beginning is an hour past, so that of all workers one does it; if it dies meanwhile, the next hour's does.
create table sweep (
    number integer primary key check (number = 1),
    began_at bigint not null,
    worker_id text not null
);

-- A backup under way. While its row is there, bytes that the rows it has copied refer to are not removed: they are
-- condemned, and removed later. Its process raises `seen_at` every few seconds; a row that stood still for ten
-- minutes is a dead one's, and is removed by upkeep.
create table backup (
    id text primary key,
    started_at bigint not null,
    seen_at bigint not null
);
