-- What is written of a recording while its job runs, piece by piece, so that a stream can send it. Of one attempt: the next
-- one writes its own. Removed soon after the job is final; until then erased with the job's other content.
create table live_text (
    attempt_id text not null references attempt (id),
    -- From 0 without gaps within its attempt.
    sequence integer not null check (sequence >= 0),
    job_id text not null references job (id),
    -- The pieces of an attempt, joined as they are, begin the transcript.
    text text not null,
    created_at bigint not null,
    primary key (attempt_id, sequence)
);
create index live_text_of_job on live_text (job_id);
