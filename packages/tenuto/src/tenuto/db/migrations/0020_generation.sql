-- How far this copy of the database has come, so that an old primary that comes back is recognised (PostgreSQL only):
-- `epoch` is raised by each start of a process, `acceptance` by each `tenuto admin database accept`.
create table generation (
    number bigint primary key check (number = 1),
    acceptance bigint not null,
    epoch bigint not null
);
