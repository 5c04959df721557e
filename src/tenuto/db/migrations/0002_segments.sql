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

-- When the owner, or the operator's retention, had the job's content erased: body, parameters, result.
alter table job add column erased_at bigint;

-- How much there is to speak, in characters; frozen at acceptance, for the text itself may be erased.
alter table job add column characters integer not null default 0;

-- For retention: what there is to erase, by its age.
create index artifact_input_kept on artifact (created_at) where job_id is null and erased_at is null;
create index job_kept on job (finished_at) where finished_at is not null and erased_at is null;
