-- A backup under way. While its row is there, bytes that the rows it has copied refer to are not removed: they are
-- condemned, and removed later. Its process raises `seen_at` every few seconds; a row that stood still for ten
-- minutes is a dead one's, and is removed by upkeep.
create table backup (
    id text primary key,
    started_at bigint not null,
    seen_at bigint not null
);
