"""What every handler of the studio needs beyond the service: who is signed in, what was asked, the limits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tenuto import strict_json
from tenuto.accounts import operations as accounts
from tenuto.accounts import sessions
from tenuto.accounts.rules import Caller
from tenuto.accounts.sessions import Person, Times
from tenuto.addresses import Network, networks
from tenuto.api.body import read_body
from tenuto.api.call import Answer, Call
from tenuto.api.last_use import LastUse
from tenuto.api.parsing import MAX_VALUES
from tenuto.api.service import Service
from tenuto.api.uploads import require_json
from tenuto.bodies.fields import Field, read_fields, wrong_type
from tenuto.config import Settings
from tenuto.db.database import Transaction
from tenuto.errors import Fault, Forbidden, InvalidRequest, NotSignedIn, Unavailable
from tenuto.web import cookies, origin
from tenuto.web.hashing import Hashing
from tenuto.web.login_throttle import LoginThrottle

MAX_BODY_BYTES = 64 * 1024
HOUR_MS = 3_600_000
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Studio:
    """The parts of the studio's edge in one process. Made at start, the same until it ends."""

    proxies: list[Network]
    times: Times
    base: str = ""
    """What stands before every path of ours, for who is outside."""
    throttle: LoginThrottle = field(default_factory=LoginThrottle)
    hashing: Hashing = field(default_factory=Hashing)
    seen: LastUse = field(default_factory=LastUse)
    """When sessions were last used; lost with the process, which ends them early."""

    def note_use(self, service: Service) -> None:
        """Write down when keys and sessions were last used. Unavailable: the next call tries it again."""
        used, seen = service.used_keys.take(), self.seen.take()

        def note(tx: Transaction) -> None:
            accounts.note_use(tx, used)
            sessions.note_seen(tx, seen)

        if not used and not seen:
            return
        try:
            service.database.write(note)
        except Unavailable:
            service.used_keys.put_back(used)
            self.seen.put_back(seen)
            raise


def make_studio(settings: Settings) -> Studio:
    """The studio's edge that the settings ask for."""
    times = Times(settings.session_idle_hours * HOUR_MS, settings.session_days * 24 * HOUR_MS)
    return Studio(proxies=networks(settings.trusted_proxies), times=times, base=settings.base())


def is_https(studio: Studio, call: Call) -> bool:
    """Whether the browser speaks HTTPS."""
    return origin.is_https(call, studio.proxies)


def session_sha256(studio: Studio, call: Call) -> str | None:
    """What is stored of the session that the cookie names; it may have ended."""
    token = cookies.read(call, base=studio.base, https=is_https(studio, call))
    return None if token is None else sessions.token_sha256(token)


def by_session(studio: Studio) -> Callable[[Call], Callable[[Transaction], Caller]]:
    """The studio's way to say who calls: the session in the cookie. Keys are not looked at."""

    def identify(call: Call) -> Callable[[Transaction], Caller]:
        find = person_of(studio, call)
        return lambda tx: find(tx).caller

    return identify


def person_of(studio: Studio, call: Call) -> Callable[[Transaction], Person]:
    """The look at the database that finds who is signed in. NotSignedIn."""
    sha256 = session_sha256(studio, call)
    if sha256 is None:
        raise NotSignedIn
    now_ms = call.service.clock()

    def find(tx: Transaction) -> Person:
        person = sessions.person(tx, sha256, times=studio.times, now_ms=now_ms)
        studio.seen.note(sha256, now_ms)
        return person

    return find


async def operator_of(studio: Studio, call: Call) -> Person:
    """The operator who calls. Forbidden to everybody else, whatever the path names."""
    await call.authenticate()
    person = await call.service.database.read_async(person_of(studio, call))
    if not person.is_operator:
        raise Forbidden("only the operator's account may see and do this")
    return person


async def read_object(call: Call, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The JSON object of the body, by the rules of its fields; InvalidRequest names all faults at once."""
    require_json(call)
    value = strict_json.parse(await read_raw(call), max_values=MAX_VALUES)
    if type(value) is not dict:
        raise InvalidRequest([wrong_type("body", value, "an object")])
    faults: list[Fault] = []
    kept = read_fields(fields, value, "", faults)
    if faults:
        raise InvalidRequest(faults)
    return {name: rule.default for name, rule in fields.items()} | kept


async def read_raw(call: Call) -> bytes:
    """The body, which is small."""
    return await read_body(
        call.receive, call.scope["headers"], limit_bytes=MAX_BODY_BYTES, limits=call.service.http
    )


def answer(status: int, value: Any) -> Answer:
    """JSON."""
    return Answer(status, _encode(value))


def listed(items: list[Any], **more: Any) -> Answer:
    """A list in the API's shape."""
    return answer(200, {"object": "list", "data": items, **more})
