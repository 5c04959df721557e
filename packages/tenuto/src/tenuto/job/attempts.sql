-- The rows of attempts, their segments and chunks, and the changes that an attempt makes to its job.
--
-- Takes a transaction, never commits. Every update of a job names the states (`states.Move`) and the
-- attempt it
-- starts from; None or 0 rows means that another transaction was first, and nothing more may then be written.

-- free_slot_of(attempt_id) -> changed
-- Free the attempt's slot. It is looked up by the attempt, so a second call changes nothing.
update slot set job_id = null, attempt_id = null where attempt_id = :attempt_id;

-- --- an attempt's writes, each behind the fence

-- locked_attempt(attempt_id) -> first FencedAttempt
-- The attempt with what a transition needs of its job; locks the job against every other writer.
--
-- The attempt's row is locked, too: a caller that had to wait for the job's lock alone would go on with the
-- attempt as it was before the wait, and repeat a call whose fence was passed meanwhile.
select a.id, a.job_id, a.state, a.beat, a.fenced_at, a.blob_id, a.media_type, a.result_metadata, a.duration_ms,
       j.state as job_state, j.attempt_id as job_attempt_id, j.account_id, j.hold_micros, j.price_micros,
       j.price_unit, j.cancel_requested_at, j.hosts_lost, j.unforeseen_errors, j.workers_lost
from attempt a join job j on j.id = a.job_id where a.id = :attempt_id for update of j, a;

-- locked_keys(attempt_id) -> first AttemptKeys
-- The attempt and its job, locked; only the columns that identify them: enough where nothing else can be
-- read.
select a.id, a.job_id, j.state as job_state, j.attempt_id as job_attempt_id
from attempt a join job j on j.id = a.job_id where a.id = :attempt_id for update of j, a;

-- heartbeat(attempt_id, progress) -> first Heard
-- Record a heartbeat; None if the attempt is over.
-- with cancelled_at: int | None
update attempt set beat = beat + 1, progress = coalesce(:progress, progress),
       heard_at = coalesce((select w.seen_at from worker w where w.id = attempt.worker_id), heard_at)
where id = :attempt_id and state <> 'ended'
returning (select j.cancel_requested_at from job j where j.id = attempt.job_id) as cancelled_at;

-- pass_fence(attempt_id, now_ms) -> changed
update attempt set fenced_at = :now_ms where id = :attempt_id and state = 'running' and fenced_at is null;

-- record(attempt_id, *, blob_id, media_type, metadata, duration_ms) -> changed
-- Only a running attempt, or one whose outcome was unknown until now, records a result.
update attempt set state = 'recorded', outcome = null, ended_at = null, blob_id = :blob_id,
       media_type = :media_type, result_metadata = :metadata, duration_ms = :duration_ms
where id = :attempt_id and (state = 'running' or (state = 'ended' and outcome = 'unknown'));

-- end_attempt(attempt_id, outcome, now_ms, evidence) -> changed
update attempt set state = 'ended', outcome = :outcome, ended_at = :now_ms,
       evidence = coalesce(:evidence, evidence)
where id = :attempt_id and state <> 'ended';

-- succeed(job_id, attempt_id, *, artifact_id, charged_micros, now_ms) -> first int
-- The number of the transition's event, as of all that follow here.
update job set state = 'succeeded', artifact_id = :artifact_id, charged_micros = :charged_micros,
       audio_ms = coalesce((select duration_ms from attempt where id = :attempt_id), 0),
       finished_at = :now_ms, event_sequence = event_sequence + 1
where id = :job_id and attempt_id = :attempt_id and {SUCCEED}
returning event_sequence;

-- end_running(job_id, attempt_id, *, state, error_code, error_message, finished_at) -> first int
-- The job is over, or waits for an operator. Writes no more than it must: the row may be damaged.
update job set state = :state, error_code = :error_code, error_message = :error_message,
       finished_at = :finished_at, event_sequence = event_sequence + 1
where id = :job_id and attempt_id = :attempt_id and {END_ATTEMPT}
returning event_sequence;

-- requeue_running(job_id, attempt_id, *, hosts_lost, workers_lost, losses_shared, unforeseen_errors,
--     not_before_at) -> first int
-- The job waits again, at its old place (ids order the queue), with the losses counted.
update job set state = 'queued', hosts_lost = hosts_lost + :hosts_lost,
       workers_lost = workers_lost + :workers_lost,
       losses_shared = losses_shared + :losses_shared,
       unforeseen_errors = unforeseen_errors + :unforeseen_errors,
       not_before_at = :not_before_at, event_sequence = event_sequence + 1
where id = :job_id and attempt_id = :attempt_id and {END_ATTEMPT}
returning event_sequence;

-- --- segments

-- add_segment(*NewSegmentRow) -> nothing
insert into segment (id, job_id, attempt_id, sequence, media_type, size_bytes,
       sha256, duration_ms, blob_id, created_at)
values (:segment_id, :job_id, :attempt_id, :sequence, :media_type, :size_bytes,
       :sha256, :duration_ms, :blob_id, :now_ms);

-- has_segment(segment_id) -> whether
select 1 as one from segment where id = :segment_id;

-- newest_with_segments(job_id) -> first str
-- The job's newest attempt that has saved a segment.
select t.id from attempt t
where t.job_id = :job_id and exists (select 1 from segment s where s.attempt_id = t.id)
order by t.number desc limit 1;

-- is_attempt_of(attempt_id, job_id) -> whether
select 1 as one from attempt where id = :attempt_id and job_id = :job_id;

-- segments(attempt_id, limit) -> all Segment
-- with object: str = "segment"
select id as segment_id, attempt_id, sequence, media_type, size_bytes, sha256, duration_ms,
    'segment' as object
from segment where attempt_id = :attempt_id order by sequence limit :limit;

-- segment(segment_id, job_id, account_id) -> first SegmentBytes
-- A segment of this job of this account, together with its blob.
select s.id, s.media_type, s.size_bytes, s.sha256, s.blob_id, b.block_crcs
from segment s join job j on j.id = s.job_id left join blob b on b.id = s.blob_id
where s.id = :segment_id and s.job_id = :job_id and j.account_id = :account_id;

-- --- finished chunks, in the table `part`

-- add_chunk(*NewChunk) -> changed
-- Store a finished chunk; one that was redone replaces the unusable one.
insert into part (job_id, role, number, start_frame, end_frame, model_id,
       model_revision, transcript, attempt_id,
                  created_at)
values (:job_id, :role, :number, :start_frame, :end_frame, :model_id,
       :model_revision, :transcript, :attempt_id, :now_ms)
on conflict (job_id, role, number) do update set
    start_frame = excluded.start_frame, end_frame = excluded.end_frame, model_id = excluded.model_id,
    model_revision = excluded.model_revision,
    transcript = excluded.transcript,
    attempt_id = excluded.attempt_id, created_at = excluded.created_at;

-- chunks(job_id) -> all ChunkRow
-- The chunks of a job with their transcripts, as JSON.
select role, number, start_frame, end_frame, model_id, model_revision, transcript
from part where job_id = :job_id order by role, number;

-- remove_final_chunks() -> changed
delete from part where job_id in (
    select j.id from job j where j.state in ('succeeded', 'failed', 'cancelled')
      and exists (select 1 from part p where p.job_id = j.id));

-- newest_attempt(job_id) -> first str
-- The attempt that the job names; None before its first one.
select attempt_id from job where id = :job_id;

-- has_kept(attempt_id) -> whether
-- Whether the database keeps the attempt's result.
select 1 as one from kept_result where attempt_id = :attempt_id and sequence = 0;
