-- The service's audit of its own records: one row. A worker begins by setting `began_at` where the last beginning
-- is an hour past, so that of all workers one does it; if it dies meanwhile, the next hour's goes through it all.
create table audit (
    number integer primary key check (number = 1),
    began_at bigint not null,
    worker_id text not null,
    -- The rest is of the newest audit that came to its end; null before the first has.
    ended_at bigint,
    rows_seen bigint,
    -- JSON object: how many rows each check found. Empty: records and money agree.
    findings text
);
