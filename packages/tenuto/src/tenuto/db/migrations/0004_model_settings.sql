-- What the operator set for a model in the studio; it goes before the settings file, on every machine at once.
create table model_setting (
    model text primary key,
    -- 0: no job and no chat is accepted for it; those that were accepted continue.
    is_enabled integer not null,
    -- Of its unit; null: the price of the settings file.
    price_micros bigint check (price_micros >= 0)
);

-- Every such change: append only.
create table model_change (
    id text primary key,
    model text not null,
    -- The operator's account, by its name at that time.
    operator text not null,
    is_enabled integer not null,
    price_micros bigint,
    at bigint not null
);
