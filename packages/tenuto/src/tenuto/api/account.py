"""An account's balance and ledger over HTTP."""

from tenuto.account.caller import Caller
from tenuto.api import query
from tenuto.api.answers import Answer, json_answer, json_list
from tenuto.api.call import Call
from tenuto.db.database import Transaction
from tenuto.money import read
from tenuto.money.read import Balance, LedgerEntry

_LEDGER: query.Rules = {"after": query.cursor("entry"), "limit": query.LIMIT}


async def balance(call: Call) -> Answer:
    """GET /v1/account/balance."""

    def find(tx: Transaction, who: Caller) -> Balance:
        return read.balance(tx, who.account_id)

    return json_answer(200, await call.read(find))


async def ledger(call: Call) -> Answer:
    """GET /v1/account/ledger, newest first."""

    def find(tx: Transaction, who: Caller) -> tuple[list[LedgerEntry], str | None]:
        filters = query.read_query(call, _LEDGER)
        return read.ledger(tx, who.account_id, after=filters.get("after"), limit=query.limit_of(filters))

    return json_list(*await call.read(find))
