-- 1: the newest attempt to send to it, as it is configured now, was delivered. Its messages do not wait behind those of others.

alter table webhook add column is_sound integer not null default 0;
update webhook set is_sound = 1 where failing_since is null and exists
    (select 1 from webhook_delivery d where d.webhook_id = webhook.id and d.state = 'delivered');
