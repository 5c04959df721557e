-- Bytes that never got a row (their writer died, or stands still) are removed by the sweep when they are a day old.
-- The row that condemned them stays for ever as their mark, so that a writer that wakes up late cannot record them.
-- Set when the bytes are gone; unset by the sweep that finds the id written once more all the same.
alter table blob add column is_removed integer not null default 0;
create index blob_to_remove on blob (condemned_at) where condemned_at is not null and is_removed = 0;
