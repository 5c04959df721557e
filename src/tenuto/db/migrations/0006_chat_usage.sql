-- What chats used: append only, a row for what one key used of one model between two writes of a process.
-- Written after the answers; a process that is killed loses what it had not written yet, a twentieth of a second.
create table chat_usage (
    -- Made before the write, so that a write of unknown outcome is repeated without counting twice.
    id text primary key,
    account_id text not null references account (id),
    key_id text not null,
    model text not null,
    -- The day in UTC on which the answers ended, as YYYY-MM-DD.
    day text not null,
    calls bigint not null check (calls > 0),
    prompt_tokens bigint not null check (prompt_tokens >= 0),
    completion_tokens bigint not null check (completion_tokens >= 0)
);
create index chat_usage_of_account on chat_usage (account_id, day);
