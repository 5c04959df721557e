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

-- A recording that a job was bound to when it was accepted: it stays until the job is final, also when its voice
-- is deleted. Without a foreign key, for the blob may go before the job's row does.
create table job_recording (
    job_id text not null references job (id),
    blob_id text not null,
    primary key (job_id, blob_id)
);
create index job_recording_of_blob on job_recording (blob_id);

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
