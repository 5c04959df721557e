-- The rows of jobs and their events. Takes a transaction, never commits.
--
-- Every change of a job's state is an update that names the states (`states.Move`) and the attempt it starts
-- from; None or 0 rows means that another transaction was first, and nothing more may then be written.
--
-- Queries that need an index of two columns compare both columns as a row: with an equality on the first, the
-- planner could choose another index that has the same order and covers every job ever made. 'joc' is greater
-- than any id of a job.

-- ask_bind_key(key_id, idempotency_key, *, body_sha256, job_id, now_ms) -> asked
-- Bind the idempotency key to the job; no row is changed if it is already bound.
insert into idempotency (key_id, idempotency_key, body_sha256, job_id, created_at)
values (:key_id, :idempotency_key, :body_sha256, :job_id, :now_ms)
on conflict (key_id, idempotency_key) do nothing;

-- bound(key_id, idempotency_key) -> first BoundKey
select body_sha256, job_id from idempotency where key_id = :key_id and idempotency_key = :idempotency_key;

-- traceparent(job_id) -> first str
-- The trace of the request that made the job; None: it named none.
select traceparent from job where id = :job_id;

-- set_waiter(job_id, waiter: str) -> changed
-- Record the API process whose client waits for the queued job; no effect if it is not queued.
update job set waited_by = :waiter where id = :job_id and state = 'queued';

-- waiter(job_id) -> first str
-- The API process that took the job over; None: the one that accepted it still has it.
select waited_by from job where id = :job_id;

-- newest_key(key_id, since: str, until: str) -> first NewestKey
-- The last of this API key's idempotency keys from `since` to `until`, of letters and digits.
select idempotency_key, job_id from idempotency
where key_id = :key_id and idempotency_key >= :since and idempotency_key <= :until
order by idempotency_key desc limit 1;

-- insert_job(*NewJob) -> nothing
-- All that is frozen when a job is accepted.
insert into job (id, account_id, key_id, kind, model, lane, state,
       body, parameters, metadata, input_artifact_ids,
                 characters, rerunnable, hold_micros, price_micros, price_unit, created_at, deadline_at,
                 title,
                 search_text, voice_id, traceparent, event_sequence)
values (:job_id, :account_id, :key_id, :kind, :model, :lane, 'queued', :body, :parameters, :metadata,
        :input_artifact_ids, :characters, :rerunnable, :hold_micros, :price_micros, :price_unit, :created_at,
        :deadline_at, :title, :search_text, :voice_id, :traceparent, 0);

-- add_recording(job_id, blob_id) -> nothing
insert into job_recording (job_id, blob_id) values (:job_id, :blob_id);

-- insert_event(job_id, sequence, type_, *, now_ms, attempt_id, detail, operator, note) -> nothing
-- An event of the job; `operator` decided, which callers do not see.
--
-- Its position is never below that of the job's previous event, nor below the transaction's own number, so
-- a reader that follows the positions misses nothing and sees each job's events in order (`feed`).
insert into event (job_id, sequence, type, attempt_id, detail, operator, note, at, account_id, position)
values (:job_id, :sequence, :type_, :attempt_id, :detail, :operator, :note, :now_ms,
        (select account_id from job where id = :job_id),
        (select max(number) from (
             select coalesce(transaction_number(),
                             (select max(position) from event where position is not null) + 1, 1) as number
             union all
             select position from event where job_id = :job_id and sequence = :sequence - 1) as earliest));

-- owned(job_id, account_id) -> first OwnedJob
-- A job of the caller's, locked: enough to decide whether it can be cancelled or erased.
select id, model, state, attempt_id from job where id = :job_id and account_id = :account_id for update;

-- locked(job_id) -> first LockedJob
select id, account_id, kind, state, parameters, deadline_at, attempt_id, error_code
from job where id = :job_id for update;

-- end_queued(job_id, state, *, error_code, error_message, now_ms) -> first int
-- queued → cancelled | failed, before any worker took it. Returns the number of the event, as do all below.
update job set state = :state, error_code = :error_code,
       error_message = :error_message, finished_at = :now_ms,
       event_sequence = event_sequence + 1,
       cancel_requested_at = case when :state = 'cancelled' then cast(:now_ms as bigint) end
where id = :job_id and {END_QUEUED}
returning event_sequence;

-- note_cancel(job_id, now_ms) -> first CancelNoted
-- Record the first request to cancel a running job; None if there already was one.
update job set cancel_requested_at = :now_ms, event_sequence = event_sequence + 1
where id = :job_id and state = 'running' and cancel_requested_at is null
returning event_sequence, attempt_id;

-- overdue(lane, now_ms, *, limit, after: str, least: int) -> all str
-- Queued jobs past their deadline (see `is_overdue`); all get equally long, so only the lane's oldest are
-- examined, after this one.
select id from (
    select id, deadline_at from job
    where state = 'queued' and (lane, id) > (:lane, :after) and (lane, id) < (:lane, 'joc')
      and deadline_at >= :least
    order by lane, id limit :limit) as oldest
where deadline_at <= :now_ms order by id;

-- in_recovery() -> all WaitingJob
-- Jobs in `recovery_required`, as operators see them in a list.
select j.id, j.kind, j.model, j.account_id, a.name as account_name, j.created_at, j.started_at, j.attempts,
       j.hold_micros, j.error_code, j.error_message
from job j join account a on a.id = j.account_id
where j.state = 'recovery_required' order by j.id limit 10000;

-- end_recovery(job_id, state, *, error_code, error_message, now_ms) -> first int
-- recovery_required → failed | cancelled, by an operator.
update job set state = :state, error_code = :error_code,
       error_message = :error_message, finished_at = :now_ms,
       event_sequence = event_sequence + 1
where id = :job_id and {DECIDE}
returning event_sequence;

-- requeue_recovery(job_id) -> first int
-- recovery_required → queued, by an operator who accepts that the call may be paid for twice.
update job set state = 'queued', error_code = null, error_message = null, cancel_requested_at = null,
       event_sequence = event_sequence + 1
where id = :job_id and {DECIDE}
returning event_sequence;

-- reopen_attempt(attempt_id) -> changed
-- Reopen an attempt of unknown outcome that recorded a result, so that it can be settled.
update attempt set state = 'recorded', outcome = null, ended_at = null
where id = :attempt_id and state = 'ended' and outcome = 'unknown' and blob_id is not null;

-- --- erasure

-- erase_job(job_id, now_ms) -> changed
-- The request is erased; what was charged, and when, stays.
update job set body = '', parameters = '{}', title = '', search_text = '',
       erased_at = coalesce(erased_at, :now_ms)
where id = :job_id and state in ('succeeded', 'failed', 'cancelled');

-- recorded_blobs(job_id) -> all str
select blob_id from attempt where job_id = :job_id and blob_id is not null limit 10000;

-- erase_attempts(job_id) -> changed
-- Results are erased, and whatever may quote what the engine was given.
update attempt set blob_id = null, evidence = null, result_metadata = null, progress = null
where job_id = :job_id;

-- forget_blob(job_id, blob_id) -> changed
update attempt set blob_id = null where job_id = :job_id and blob_id = :blob_id;

-- segment_blobs(job_id) -> all str
select blob_id from segment where job_id = :job_id and blob_id is not null;

-- erase_segments(job_id) -> changed
update segment set blob_id = null where job_id = :job_id;

-- remove_chunks(job_id) -> changed
delete from part where job_id = :job_id;

-- remove_kept_result(job_id) -> changed
delete from kept_result where job_id = :job_id;

-- is_needed(account_id, named: str) -> whether
-- Whether an open job of the account has just these inputs (a JSON array): a look-up in an index.
--
-- One statement, so that it sees one moment: between two, a job could move to where the first has already
-- looked.
select 1 as one from job
where account_id = :account_id and input_artifact_ids = :named and finished_at is null
  and input_artifact_ids <> '[]'
limit 1;

-- final_before(finished_before: int, limit) -> all str
select id from job where finished_at < :finished_before and finished_at is not null and erased_at is null
order by finished_at limit :limit for update skip locked;
