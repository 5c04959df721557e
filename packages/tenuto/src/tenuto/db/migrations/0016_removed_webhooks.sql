-- 1: its owner removed it. It is sent nothing and nobody sees it; its messages are removed bit by bit, then it is.

alter table webhook add column is_removed integer not null default 0;
create index webhook_removed on webhook (id) where is_removed = 1;
-- What waits is forgotten by its age: nothing ends it while its webhook is disabled.
create index webhook_delivery_waits_since on webhook_delivery (created_at) where state = 'pending';
