"""The rows of chat usage. Takes a transaction, never commits, decides nothing."""

from tenuto.billing.rows import ChatUsageRow
from tenuto.db import records
from tenuto.db.database import Transaction


def append(
    tx: Transaction,
    usage_id: str,
    *,
    account_id: str,
    key_id: str,
    model: str,
    day: str,
    calls: int,
    prompt_tokens: int,
    completion_tokens: int,
    estimated: int,
) -> None:
    tx.do(
        """insert into chat_usage
               (id, account_id, key_id, model, day, calls, prompt_tokens, completion_tokens, estimated)
           values (:id, :account_id, :key_id, :model, :day, :calls, :prompt_tokens, :completion_tokens,
                   :estimated)
           on conflict (id) do nothing""",
        id=usage_id,
        account_id=account_id,
        key_id=key_id,
        model=model,
        day=day,
        calls=calls,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        estimated=estimated,
    )


def by_day(tx: Transaction, account_id: str, *, since_day: str, until_day: str) -> list[ChatUsageRow]:
    return records.all_records(
        tx,
        ChatUsageRow,
        """select model, key_id, day, cast(sum(calls) as bigint) as calls,
                  cast(sum(prompt_tokens) as bigint) as prompt_tokens,
                  cast(sum(completion_tokens) as bigint) as completion_tokens,
                  cast(sum(estimated) as bigint) as estimated
           from chat_usage where account_id = :account_id and day >= :since_day and day <= :until_day
           group by day, model, key_id order by day desc, model, key_id""",
        account_id=account_id,
        since_day=since_day,
        until_day=until_day,
    )
