-- The rows behind the queues: slots and turns, attempts that begin, and how many jobs an account has queued.
-- Takes a transaction, never commits. `queue_store` has the statements that depend on how many models a
-- worker offers.

-- start(job_id, attempt_id, now_ms) -> asked Started
update job set state = 'running', attempt_id = :attempt_id, attempts = attempts + 1,
       started_at = coalesce(started_at, :now_ms), event_sequence = event_sequence + 1
where id = :job_id and {START}
returning event_sequence, attempts;

-- work(job_id) -> asked JobWork
-- What a worker needs to know about a job that it claims; not yet checked.
select kind, model, parameters, input_artifact_ids, rerunnable, deadline_at, losses_shared, traceparent
from job where id = :job_id;

-- unfinished(after: str, limit) -> all str
-- The ids of jobs that may still run, in order.
select id from job where id > :after and state not in ('succeeded', 'failed', 'cancelled')
order by id limit :limit;

-- add_attempt(attempt_id, *, job_id, number, worker_id, now_ms) -> nothing
insert into attempt (id, job_id, number, worker_id, state, started_at, heard_at, machine, pid)
values (:attempt_id, :job_id, :number, :worker_id, 'running', :now_ms, :now_ms,
        (select w.machine from worker w where w.id = :worker_id), (select w.pid from worker w
        where w.id = :worker_id));

-- ask_take_slot(lane, number, job_id, attempt_id) -> asked
update slot set job_id = :job_id, attempt_id = :attempt_id
where lane = :lane and number = :number and job_id is null;

-- add_turn(lane, account_id) -> nothing
insert into turn (lane, account_id, served) values (:lane, :account_id, 0)
on conflict (lane, account_id) do nothing;

-- serve_turn(lane, account_id, seen: int) -> changed
-- Give the account its turn and the last place; 0 if another worker is doing so, or has since `seen`.
update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
where lane = :lane and account_id = (
    select account_id from turn where lane = :lane and account_id = :account_id and served = :seen
    for update skip locked);

-- serve_turn_again(lane, account_id) -> changed
-- Give the account its turn and the last place, after waiting for any worker that is doing so now.
update turn set served = (select coalesce(max(served), 0) + 1 from turn where lane = :lane)
where lane = :lane and account_id = :account_id;

-- --- lanes

-- slots(lane) -> all SlotRow
select number, job_id from slot where lane = :lane order by number;

-- add_slot(lane, number) -> changed
insert into slot (lane, number) values (:lane, :number) on conflict (lane, number) do nothing;

-- remove_free_slots(lane, above: int) -> changed
delete from slot where lane = :lane and number > :above and job_id is null;

-- queued(lane) -> only int
select count(*) as queued from job where state = 'queued' and lane = :lane;

-- oldest_queued_at(lane) -> first int
select created_at from job where state = 'queued' and (lane, id) > (:lane, '') and (lane, id) < (:lane, 'joc')
order by lane, id limit 1;

-- recovering(lane) -> only int
select count(*) as waiting from job where state = 'recovery_required' and lane = :lane;

-- open_attempts() -> all OpenAttempt
-- Attempts that a worker should be running, with the lock that shows whether it is alive.
select t.id as attempt_id, t.job_id, t.worker_id, t.beat, w.machine, w.lock_name
from attempt t left join worker w on w.id = t.worker_id
where t.state <> 'ended' order by t.id limit 10000;

-- attempts_of_worker(worker_id) -> only int
select count(*) as open from attempt where worker_id = :worker_id and state <> 'ended';

-- cancel_requests(worker_id) -> all str
-- The worker's attempts whose jobs have been cancelled by their callers.
select t.id from attempt t join job j on j.id = t.job_id
where t.worker_id = :worker_id and t.state <> 'ended' and j.cancel_requested_at is not null;

-- --- quota

-- lock_account(account_id) -> asked
-- Until the transaction ends, no other submission counts what the account has queued. The same lock as
-- the hold's update: inserts that only refer to the account do not wait for it.
select id from account where id = :account_id for no key update;

-- take_noted_quota(account_id, lane, limit) -> asked
-- Take one place that was noted under this limit; no row is changed when none is left.
update queue_room set room = room - 1
where account_id = :account_id and lane = :lane and room > 0 and noted_limit = :limit;

-- note_free_quota(account_id, lane, limit, room) -> nothing
insert into queue_room (account_id, lane, room, noted_limit) values (:account_id, :lane, :room, :limit)
on conflict (account_id, lane) do update set room = :room, noted_limit = :limit;

-- queued_of_account(account_id, lane, limit) -> asked Counted
-- How many jobs of the account wait in this lane, counted up to `limit`.
-- with number: int
select count(*) as number from (
    select 1 as one from job where state = 'queued' and lane = :lane and account_id = :account_id
    limit :limit) as waiting;
