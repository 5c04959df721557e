-- Who signs in at the studio: an account's password. An account without a row is used with keys alone.
create table login (
    account_id text primary key references account (id),
    -- argon2id, its parameters and salt within.
    password_hash text not null,
    -- 1: the operator's pages are open to it. The set-up link alone sets it.
    operator integer not null,
    -- What the studio's calls are bound, limited and counted under: a key without a secret, so that nobody can send it.
    key_id text not null unique references api_key (id),
    created_at bigint not null,
    -- When the password was last set; a session is begun only by who knew the newest one.
    changed_at bigint not null
);

-- Who is signed in: the SHA-256 of what the browser's cookie holds.
create table web_session (
    sha256 text primary key,
    account_id text not null references account (id),
    created_at bigint not null,
    -- Written every half minute while it is used; a process that is killed loses that much.
    seen_at bigint not null,
    expires_at bigint not null
);
create index web_session_of_account on web_session (account_id);

-- A link that sets a password, once: the SHA-256 of its token. The row goes when the link is used.
create table invitation (
    sha256 text primary key,
    -- Whose password it sets; null: that of the operator, whoever sets the service up.
    account_id text references account (id),
    created_at bigint not null,
    expires_at bigint not null
);
create index invitation_of_account on invitation (account_id);
