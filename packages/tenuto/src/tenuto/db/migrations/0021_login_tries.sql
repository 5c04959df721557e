-- Tries of passwords and links, and new accounts, counted over all API processes. One row for each address, name or pair
-- of them, known by its digest only; it is removed once the tries no longer count.
create table login_try (
    counted text primary key,
    -- When none of its tries counts any more: each adds its time to this.
    empty_at bigint not null
);
create index login_try_of_old on login_try (empty_at);
