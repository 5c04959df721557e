-- The rows of the ledger and of balances. Takes a transaction, never commits, decides nothing.

-- fragment line
select id, type, account_id, job_id, available_micros, held_micros, revenue_micros, funding_micros, note,
       created_at, call_id;

-- append(*Entry, now_ms) -> nothing
-- Append one double entry; the four amounts sum to zero (the database checks this too).
-- with available_micros: int = 0, held_micros: int = 0, revenue_micros: int = 0, funding_micros: int = 0,
--     note: str | None = None, call_id: str | None = None
insert into entry (id, type, account_id, job_id, available_micros,
       held_micros, revenue_micros, funding_micros,
                   note, call_id, created_at)
values (:entry_id, :type, :account_id, :job_id, :available_micros,
       :held_micros, :revenue_micros, :funding_micros,
        :note, :call_id, :now_ms);

-- entry(entry_id) -> first LedgerLine
{line} from entry where id = :entry_id;

-- lock(account_id) -> whether
-- Lock the account against other writers until the transaction ends.
select id from account where id = :account_id for update;

-- fragment move
update account
set available_micros = available_micros + :available_micros, held_micros = held_micros + :held_micros
where id = :account_id and available_micros + :available_micros >= 0 and held_micros + :held_micros >= 0;

-- move(account_id, available_micros, held_micros) -> changed
-- Change both balances, or change no row if one of them would become negative.
{move};

-- ask_move(account_id, available_micros, held_micros) -> asked
-- `move` for callers that read the number of changed rows later.
{move};

-- add(account_id, available_micros, most_micros: int) -> changed
-- Add to what is available, or change no row if the account would exceed `most_micros`.
update account set available_micros = available_micros + :available_micros
where id = :account_id and available_micros + held_micros <= :most_micros - :available_micros;

-- hold_of_job(job_id) -> first HoldRow
select account_id, held_micros from entry where job_id = :job_id and type = 'hold';

-- balance(account_id) -> first BalanceRow
select available_micros, held_micros from account where id = :account_id;

-- entries(account_id, before: str, limit) -> all LedgerLine
-- Newest first; compares both columns of the index, so that the database uses no other index.
{line} from entry
where (account_id, id) > (:account_id, '') and (account_id, id) < (:account_id, :before)
order by account_id desc, id desc limit :limit;

-- entries_of_job(job_id) -> all LedgerLine
-- Oldest first, by three look-ups, each with its own index.
{line}
from (select * from entry where job_id = :job_id and type = 'hold'
      union all
      select * from entry where job_id = :job_id and type in ('settle', 'void')
      union all
      select * from entry where job_id = :job_id and type = 'adjust') as lines
order by id limit 1000;
