"""Spending over HTTP: sums by model, key or day, the ledger lines of a job, and all lines as CSV."""

import csv
import datetime
import io
import re
from collections.abc import Iterable
from typing import cast

from msgspec.structs import asdict

from tenuto.account.caller import Caller
from tenuto.api import query
from tenuto.api.answers import Answer, json_list
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.features.history import usage as job_usage
from tenuto.features.history.days import DAY, read_days
from tenuto.features.history.rows import AccountLedgerLine
from tenuto.features.history.usage import Grouping
from tenuto.features.studio.studio import Studio
from tenuto.logs import get_logger
from tenuto.money import read as reads
from tenuto.money.read import LedgerEntry
from tenuto.money.rules import cny
from tenuto.rules import Choice

DEFAULT_DAYS = 31
MAX_DAYS = 400
PAGE_LINES = 2000
COLUMNS = (
    "id", "time", "type", "amount", "available_change", "held_change", "currency", "job_id", "model", "key",
    "note", "call_id",
)  # fmt: skip

_GROUPS = ("model", "key", "day")
_USAGE: query.Rules = {"from": DAY, "to": DAY, "group": Choice(_GROUPS)}
# What spreadsheets may take for the beginning of a formula (OWASP's list for CSV injection), also behind what
# they take for the end of a cell: with many settings that is a semicolon or a tab.
_FORMULA = re.compile(r"(^|[,;|\t\r\n]|\"|')(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\r\n])")
_log = get_logger("tenuto.web")


async def usage(studio: Studio, call: Call) -> Answer:
    """GET /web/usage: sums over the ledger."""
    caller = await call.authenticate()
    filters = query.read_query(call, _USAGE)
    since, until = read_days(call, filters, "from", "to", default=DEFAULT_DAYS, most=MAX_DAYS)
    grouping = cast(Grouping, filters.get("group", "model"))
    totals = await call.report(
        lambda tx: job_usage.charges_of_account(tx, caller.account_id, grouping, since=since, until=until)
    )
    return json_list(
        [asdict(charge) for charge in totals],
        charged_micros=sum(charge.charged_micros for charge in totals),
        **{"from": since.isoformat(), "to": until.isoformat(), "group": grouping},
    )


async def job_ledger(studio: Studio, call: Call) -> Answer:
    """GET /web/jobs/{id}/ledger: what the job did to the balance, oldest first."""

    def find(tx: Transaction, who: Caller) -> list[LedgerEntry]:
        return reads.ledger_of_job(tx, who.account_id, call.path_id("job_id", "job"))

    return json_list(await call.read(find))


async def ledger_csv(studio: Studio, call: Call) -> Answer | None:
    """GET /web/ledger.csv: every line of the account, oldest first, page by page as the client reads them.

    ClientGone.
    """
    account_id = (await call.authenticate()).account_id
    lines = await _page(call, account_id, "")
    headers = [
        (b"content-type", b"text/csv; charset=utf-8; header=present"),
        (b"content-disposition", b'attachment; filename="ledger.csv"'),
        (b"x-request-id", call.request_id.encode()),
    ]
    await call.send({"type": "http.response.start", "status": 200, "headers": headers})
    # Spreadsheets recognize UTF-8 by the byte order mark.
    table = "\ufeff" + _rows([COLUMNS])
    while lines and call.scope["method"] != "HEAD":
        table += _rows(_cells(line) for line in lines)
        await call.send({"type": "http.response.body", "body": table.encode(), "more_body": True})
        table = ""
        if call.is_gone():
            raise ClientGone
        try:
            lines = await _page(call, account_id, lines[-1].id)
        except Unavailable as error:
            _log.warning("ledger.cut_off", request_id=call.request_id, reason=error.message)
            return None  # Not ended: the server cuts the connection, so the client sees a failure.
    await call.send({"type": "http.response.body", "body": table.encode()})
    return None


async def _page(call: Call, account_id: str, after: str) -> list[AccountLedgerLine]:
    return await call.report(lambda tx: job_usage.ledger_lines(tx, account_id, after=after, limit=PAGE_LINES))


def _cells(line: AccountLedgerLine) -> Iterable[str]:
    time = datetime.datetime.fromtimestamp(line.created_at / 1000, datetime.UTC)
    amounts = (line.amount_micros, line.available_micros, line.held_micros)
    names = (line.model, line.key_name, line.note)
    return (
        line.id,
        time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        line.type,
        *[cny(amount) for amount in amounts],
        "CNY",
        line.job_id or "",
        *[_inert(name or "") for name in names],
        line.call_id or "",
    )


def _inert(text: str) -> str:
    """The text, with an apostrophe before all that a spreadsheet could take for a formula."""
    return _FORMULA.sub(r"\1'", text)


def _rows(rows: Iterable[Iterable[str]]) -> str:
    table = io.StringIO()
    csv.writer(table, lineterminator="\r\n").writerows(rows)
    return table.getvalue()
