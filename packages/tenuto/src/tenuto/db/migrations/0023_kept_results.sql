-- A result that was paid for and that the store of bytes did not take at once: whatever becomes of its worker, another
-- one stores it. Of a running attempt; removed in the transaction that records the result, or when an operator decides.
create table kept_result (
    attempt_id text not null references attempt (id),
    -- 0: JSON that describes the result; from 1 on without gaps: its bytes in pieces, as Base64.
    sequence integer not null check (sequence >= 0),
    job_id text not null references job (id),
    content text not null,
    created_at bigint not null,
    primary key (attempt_id, sequence)
);
create index kept_result_of_job on kept_result (job_id);
