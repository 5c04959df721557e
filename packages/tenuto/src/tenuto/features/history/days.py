"""The days that a query asks for."""

import datetime
from collections.abc import Mapping

from tenuto.api.call import Call
from tenuto.errors import Fault, InvalidRequest
from tenuto.rules import Form

FIRST_YEAR = 1970


def read_days(
    call: Call, query: Mapping[str, str], first: str, last: str, *, default: int, most: int
) -> tuple[datetime.date, datetime.date]:
    """The days from `first` to `last`, both included; these name parameters that have the rule `DAY`.

    `last` defaults to today, `first` to a range of `default` days. InvalidRequest for more than `most`.
    """
    today = datetime.datetime.fromtimestamp(call.service.clock() / 1000, datetime.UTC).date()
    until = datetime.date.fromisoformat(query[last]) if last in query else today
    since = until - datetime.timedelta(days=default - 1)
    if first in query:
        since = datetime.date.fromisoformat(query[first])
    if not 0 <= (until - since).days < most:
        message = f"must be at most {most} days before `{last}`, and not after it"
        raise InvalidRequest([Fault(first, "out_of_range", message)])
    return since, until


def _is_day(text: str) -> bool:
    try:
        return len(text) == len("2026-11-21") and datetime.date.fromisoformat(text).year >= FIRST_YEAR
    except ValueError:
        return False


DAY = Form("a day such as 2026-11-21", _is_day)
