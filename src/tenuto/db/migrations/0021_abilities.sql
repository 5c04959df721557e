-- What a worker said of itself at start: each model that it was to run, with the reason why not (JSON).
alter table worker add column abilities text not null default '[]';
-- What its engines may take of its machine together, in MiB; 0: no limit.
alter table worker add column engine_memory_mib bigint not null default 0;
-- The engines that are loaded, and the MiB that each was measured to take (JSON); told when it has changed.
alter table worker add column engines text not null default '{}';
