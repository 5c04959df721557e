"""Why a database was not available, in words for its operator. Knows no connections.

Nothing of the address is repeated: libpq mistakes part of an unescaped password for the host or port.
"""

import re
from collections.abc import Iterator

from tenuto.db.database_copy import Outdated

_REFUSED = re.compile(r"connection to server [^\n]*? failed: (FATAL: +)?([^\n]+)")
_ESCAPED = "in a password / is written %2F and @ is written %40"
OTHER_SESSION = frozenset(("26000", "42P05"))
"""SQLSTATEs: a statement that we have prepared is missing, or there already: the session is another one."""
_NO_RIGHT = "42501"
_OTHERWISE = {
    "resolve host": f"its host has no address ({_ESCAPED})",
    "translate host name": f"its host has no address ({_ESCAPED})",
    "invalid integer value": f"its port is not a number ({_ESCAPED})",
    "timeout expired": "nothing came back in time",
}


def describe(error: BaseException) -> str:
    """The database "refuses us: …", in the server's words, or "does not answer", and why if that is known."""
    for cause in _causes(error):
        message = str(cause)
        if getattr(cause, "sqlstate", None) in OTHER_SESSION:
            return "is behind a pooler that changes sessions between transactions"
        if isinstance(cause, Outdated):
            return f"is not the one in use: {message}"
        if getattr(cause, "sqlstate", None) == _NO_RIGHT:
            return f"refuses us: {message.partition(chr(10))[0]}"
        if match := _REFUSED.search(message):
            return f"{'refuses us' if match[1] else 'does not answer'}: {match[2]}"
        for sign, reason in _OTHERWISE.items():
            if sign in message:
                return f"does not answer: {reason}"
    return "does not answer"


def remedy(error: BaseException) -> str:
    """How the operator corrects it."""
    if any(getattr(cause, "sqlstate", None) in OTHER_SESSION for cause in _causes(error)):
        return "set its pool_mode to session"
    if any(isinstance(cause, Outdated) for cause in _causes(error)):
        return "correct the setting database, or accept this copy with: tenuto admin database accept"
    if any(getattr(cause, "sqlstate", None) == _NO_RIGHT for cause in _causes(error)):
        return "grant it to the role in the setting database"
    return "start it, or correct the setting database"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
