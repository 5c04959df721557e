-- The service's look for bytes and rows that nothing refers to: one row. A worker begins by setting `began_at` where
-- the last beginning is an hour past, so that of all workers one does it; if it dies meanwhile, the next hour's does.
create table sweep (
    number integer primary key check (number = 1),
    began_at bigint not null,
    worker_id text not null
);
