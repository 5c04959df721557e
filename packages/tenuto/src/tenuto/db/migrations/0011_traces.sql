-- The trace that a job belongs to, and how far events have become spans. Nothing of either is used unless `otlp_endpoint`
-- is set.

-- The caller's `traceparent`, checked, as it came with the request that was accepted; null: none came, and the trace's id
-- follows from the job's.
alter table job add column traceparent text;

-- Which process exports spans, and how far it has read the events. `beat` rises while it lives. Not in backups.
create table span_export (
    number integer primary key check (number = 1),
    holder text not null,
    beat bigint not null,
    position bigint not null,
    job_id text not null,
    sequence integer not null
);
