-- Where an account wants to be informed, and what is on its way there. Nothing of a job's content is in any of it.

create table webhook (
    id text primary key,
    account_id text not null references account (id),
    url text not null,
    -- JSON list of the types of events that are sent.
    events text not null,
    description text not null,
    -- JSON list of the models that the key was restricted to that made it; null: all.
    models text,
    -- What signs deliveries, and what signed them before, for a day. Shown only when they are made.
    secret text not null,
    old_secret text,
    old_secret_until bigint not null default 0,
    is_enabled integer not null,
    -- Why the service disabled it; null when its owner did, or nobody.
    disabled_because text,
    -- When the deliveries that fail without a success between them began to; null: the last one succeeded.
    failing_since bigint,
    -- Events before this position are older than the webhook.
    since_position bigint not null,
    -- 1: its owner was told that the balance is low, and it has not been credited since.
    is_low integer not null default 0,
    created_at bigint not null
);
create index webhook_of_account on webhook (account_id, id);
-- The sender begins at the oldest.
create index webhook_since on webhook (since_position);

-- One message to one webhook. Made in the order of events, by one process at a time; the id of the message is the same
-- in every attempt.
create table webhook_delivery (
    id text primary key,
    webhook_id text not null references webhook (id) on delete cascade,
    message_id text not null,
    type text not null,
    body text not null,
    state text not null check (state in ('pending', 'delivered', 'failed')),
    attempts integer not null default 0,
    -- No attempt before it.
    next_at bigint not null,
    -- Of the newest attempt: the answer's status, or why there was none.
    status integer,
    error text,
    created_at bigint not null,
    ended_at bigint,
    unique (webhook_id, message_id)
);
create index webhook_delivery_due on webhook_delivery (next_at, webhook_id) where state = 'pending';
create index webhook_delivery_listed on webhook_delivery (webhook_id, id);
create index webhook_delivery_kept on webhook_delivery (ended_at) where ended_at is not null;

-- Which process makes and sends deliveries, and how far it has read the events. `beat` rises while it lives.
create table webhook_sender (
    number integer primary key check (number = 1),
    holder text not null,
    beat bigint not null,
    position bigint not null,
    job_id text not null,
    sequence integer not null
);
