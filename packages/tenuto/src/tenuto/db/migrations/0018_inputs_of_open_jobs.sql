-- Whether an open job still needs an input is asked before each erasure, however many jobs wait. Jobs without inputs are not in it.
create index job_open_input on job (account_id, input_artifact_ids)
    where finished_at is null and input_artifact_ids <> '[]';
