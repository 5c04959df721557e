-- The number of the newest message that was made for a webhook, and each message's own: consecutive, so that a receiver can put
-- messages in order and see that one is missing. Null: the message was made before there were numbers.

alter table webhook add column newest_sequence bigint not null default 0;
alter table webhook_delivery add column sequence bigint;
