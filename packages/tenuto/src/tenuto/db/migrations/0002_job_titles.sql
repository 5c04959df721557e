-- What people recognise and find their jobs by. Of jobs and uploads that an earlier version accepted, also one that still
-- runs beside this one, these are null: such jobs are listed without a title and not found by a search.

-- What the caller's file was called, if the upload said so. Null again once the content is erased.
alter table artifact add column name text;

-- The beginning of what was asked, on one line; empty: there is nothing to show, or it was erased.
alter table job add column title text;
-- The same, longer and folded for comparing (`jobs.titles`). Short enough for an index on either database.
alter table job add column search_text text;
-- The voice that was asked for; null: none.
alter table job add column voice_id text;

-- A search looks through an account's jobs in this index alone: rows are long, for they hold what was asked.
create index job_found on job (account_id, id, model, voice_id, search_text);
