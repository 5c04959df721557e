-- What a worker may take is found by model: twenty thousand jobs that wait for another's engine are not looked through.
create index job_of_model on job (lane, model, account_id, id) where state = 'queued';
-- An account's jobs that have not succeeded are listed by their state, however many have.
create index job_by_state on job (account_id, state, id) where state <> 'succeeded';
