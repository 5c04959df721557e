-- The job that an input came with, in one request (`POST /v1/audio/transcriptions`); null: it was uploaded by itself.
-- Nobody asked for it to be stored beyond that job, so it is erased some hours after the job has ended.
alter table artifact add column sent_with_job_id text;
create index artifact_sent_with_job on artifact (id) where sent_with_job_id is not null and erased_at is null;
