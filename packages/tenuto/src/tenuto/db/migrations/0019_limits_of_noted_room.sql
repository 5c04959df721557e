-- The limit of the queue under which the room was noted: after another setting it says nothing, and is counted again.
alter table queue_room add column noted_limit bigint not null default 0;
