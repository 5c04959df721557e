-- Calls of chat and embedding models that have a price: one row for each request, with what it holds. The tokens and the
-- charge of a settled call are also in `chat_usage`, under the same id, written in the same transaction.
create table model_call (
    id text primary key,
    account_id text not null references account (id),
    key_id text not null,
    model text not null,
    -- open: it holds its bound; settled: charged; void: released. An open call whose process died is released by upkeep.
    state text not null check (state in ('open', 'settled', 'void')),
    -- Frozen when the call begins: CNY for a million tokens, in micros.
    input_price_micros bigint not null check (input_price_micros >= 0),
    output_price_micros bigint not null check (output_price_micros >= 0),
    hold_micros bigint not null check (hold_micros >= 0),
    charged_micros bigint check (charged_micros >= 0 and charged_micros <= hold_micros),
    prompt_tokens bigint check (prompt_tokens >= 0),
    completion_tokens bigint check (completion_tokens >= 0),
    created_at bigint not null,
    finished_at bigint,
    check ((state = 'settled') = (charged_micros is not null)),
    check ((state = 'open') = (finished_at is null))
);
create index model_call_open on model_call (id) where state = 'open';
create index model_call_of_account on model_call (account_id, state, hold_micros);

-- The call behind a hold, a settlement or a release; null where there is a job, and for credits.
alter table entry add column call_id text;
create unique index entry_one_hold_of_call on entry (call_id) where type = 'hold' and call_id is not null;
create unique index entry_one_resolution_of_call on entry (call_id)
    where type in ('settle', 'void') and call_id is not null;

-- What these calls were charged; the rows of an earlier version are of calls that were free.
alter table chat_usage add column charged_micros bigint not null default 0;
