-- The limit of the queue when the room was noted. Under any other limit the note is ignored, and the queue is counted.
alter table queue_room add column noted_limit bigint not null default 0;
