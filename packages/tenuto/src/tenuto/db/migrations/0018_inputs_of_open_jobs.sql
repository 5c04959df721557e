-- Each erasure of an input checks whether an open job needs it. With this index the check is fast however long the queue is.
create index job_open_input on job (account_id, input_artifact_ids)
    where finished_at is null and input_artifact_ids <> '[]';
