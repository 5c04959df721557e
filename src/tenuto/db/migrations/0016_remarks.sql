-- The few lines of a job that are neither its hold nor its end: those have an index each, so that a job's lines
-- are found without one over all of the ledger.
create index entry_remark on entry (job_id) where type = 'adjust' and job_id is not null;
