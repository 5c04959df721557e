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

-- What an account has stored by uploading, for its limit.
create index artifact_inputs on artifact (account_id, size_bytes) where job_id is null and erased_at is null;
