-- What the operator's charts add up, from this index alone: an entry is written once, when the job ends.
create index job_finished on job (finished_at, created_at, started_at, model, state, charged_micros)
    where finished_at is not null;
