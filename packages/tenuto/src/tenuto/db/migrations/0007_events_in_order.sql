-- An account's events as one sequence, for whoever follows them as they happen. Both columns are null in events that an
-- earlier version wrote, also one that still runs beside this one: those are read by their job alone.

alter table event add column account_id text;
-- Where the event stands among all of them: what became visible earlier never has a higher one. Events of one
-- transaction may share theirs, and go by job and sequence. Cleared by a restore, whose database counts from its own.
alter table event add column position bigint;

-- Followed from its end; a reader that was away passes over other accounts' events in this index alone.
create index event_in_order on event (position, job_id, sequence, account_id) where position is not null;
