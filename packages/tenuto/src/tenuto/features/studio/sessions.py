"""Sessions: who is signed in, from sign-in until the session has been idle or has lasted for too long.

A session's id is 256 random bits in a cookie. This module sees only its SHA-256, and no cookies.
"""

import hashlib
import secrets
from collections.abc import Callable

from msgspec import Struct

from tenuto.account import operations
from tenuto.account.caller import Caller
from tenuto.db.database import Asking, Transaction
from tenuto.db.records import DeferredRecord
from tenuto.errors import NotSignedIn
from tenuto.features.studio import store
from tenuto.features.studio.rows import SessionRow
from tenuto.logs import get_logger

HOUR_MS = 3_600_000
MAX_SESSIONS = 100
"""Of one account; beyond that, the oldest end."""

_log = get_logger("tenuto.accounts")


class Times(Struct, frozen=True):
    """How long a session lasts without a request, and in total."""

    idle_ms: int
    longest_ms: int


class Person(Struct, frozen=True):
    """Who is signed in, and as which caller."""

    caller: Caller
    name: str
    is_operator: bool
    password_hash: str


def new_token() -> str:
    """256 random bits for a cookie or a link."""
    return secrets.token_urlsafe(32)


def token_sha256(token: str) -> str:
    """What is stored of a token: random bits need no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


def begin(
    tx: Transaction, sha256: str, *, account_id: str, times: Times, now_ms: int, ends: str | None = None
) -> None:
    """Start a session under a new id; the session that it replaces, `ends`, ends."""
    store.end_old_sessions(tx, now_ms=now_ms, seen_before=now_ms - times.idle_ms)
    if ends is not None:
        store.end_session(tx, ends)
    store.end_surplus_sessions(tx, account_id, MAX_SESSIONS - 1)
    store.add_session(tx, sha256, account_id=account_id, now_ms=now_ms, ends_at=now_ms + times.longest_ms)


def find(tx: Transaction, sha256: str, *, times: Times, now_ms: int) -> Person | None:
    """The person signed in by this session, if it is valid."""
    return _person(store.ask_session(tx, sha256, now_ms=now_ms, seen_after=now_ms - times.idle_ms))


def person(tx: Transaction, sha256: str, *, times: Times, now_ms: int) -> Person:
    """The same; raises NotSignedIn if the session is not valid."""
    return ask_person(tx, sha256, times=times, now_ms=now_ms)()


def ask_person(tx: Asking, sha256: str, *, times: Times, now_ms: int) -> Callable[[], Person]:
    """Ask the same; the function returned reads the answer."""
    asked = store.ask_session(tx, sha256, now_ms=now_ms, seen_after=now_ms - times.idle_ms)

    def read() -> Person:
        signed_in = _person(asked)
        if signed_in is None:
            raise NotSignedIn
        return signed_in

    return read


def _person(asked: DeferredRecord[SessionRow]) -> Person | None:
    session = asked.one()
    if session is None:
        return None
    try:
        models = operations.models_set(session.models)
    except operations.RestrictionDamaged:
        # They may sign in, to see their keys or (as operator) to correct this, but may use no model.
        _log.error("record.damaged", id=session.account_id, column="models")
        models = frozenset()
    caller = Caller(session.key_id, session.account_id, models, None)
    return Person(caller, session.name, bool(session.operator), session.password_hash)


def end(tx: Transaction, sha256: str) -> None:
    """Sign out."""
    store.end_session(tx, sha256)


def note_seen(tx: Transaction, seen: dict[str, int]) -> None:
    """Record when sessions were last used."""
    for sha256, at_ms in seen.items():
        store.see_session(tx, sha256, at_ms)
