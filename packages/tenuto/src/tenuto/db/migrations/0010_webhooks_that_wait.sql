-- The sender asks for each webhook that has messages which one is due longest, however many wait behind it.

drop index webhook_delivery_due;
create index webhook_delivery_waits on webhook_delivery (webhook_id, next_at, id) where state = 'pending';
