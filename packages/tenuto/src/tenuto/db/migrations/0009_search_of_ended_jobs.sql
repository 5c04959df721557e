-- A search looks through an account's ended jobs in this index, and through its open ones in their rows: those are few
-- beside what an account has ever asked for, and each entry of an index is written while somebody waits for the 202.
drop index job_found;
create index job_found_ended on job (account_id, id, model, voice_id, search_text, finished_at)
    where finished_at is not null;
