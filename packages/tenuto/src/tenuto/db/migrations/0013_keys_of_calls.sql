-- The caller's Idempotency-Key of a call that has a price. A call that was released has freed its key.
alter table model_call add column request_key text;
create unique index model_call_of_key on model_call (key_id, request_key) where request_key is not null and state <> 'void';
