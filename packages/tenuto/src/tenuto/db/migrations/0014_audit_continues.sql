-- An audit continues where it stopped, and looks at keys by the job that they name.

-- How far the look through all records has come, and what it found so far and the time before: JSON, written when an
-- hour's audit ends; null: it begins. A worker that dies meanwhile leaves it as it was.
alter table audit add column progress text;
create index idempotency_of_job on idempotency (job_id);
