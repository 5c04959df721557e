"""What every route of the studio needs beyond the service: who is signed in, fields of bodies, limits."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct, field

from tenuto import strict_json
from tenuto.account.caller import Caller
from tenuto.api.call import AskCaller, Call, Identify
from tenuto.api.json_body import MAX_VALUES, require_json
from tenuto.api.limits import Buckets
from tenuto.api.service import LastUse
from tenuto.config import Settings
from tenuto.config.addresses import Network, networks
from tenuto.db.database import Asking
from tenuto.errors import Fault, Forbidden, InvalidRequest, NotSignedIn, Unavailable
from tenuto.features.models.background import BackgroundPull
from tenuto.features.studio import browser, passwords, sessions, tries
from tenuto.features.studio.sessions import Person, Times
from tenuto.features.studio.settings import StudioSettings
from tenuto.features.studio.tries import Counts
from tenuto.rules import MAX_FAULTS_NAMED, Field, Rule, read_fields, wrong_type

HOUR_MS = 3_600_000
HASHING_THREADS = 2
MAX_WAITING_HASHES = 32
"""Further ones are refused: a hash takes 64 MiB, so a flood of passwords could exhaust memory."""

T = TypeVar("T")


class Hashing:
    """Hashes passwords in threads of its own. Used by the event loop alone."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(HASHING_THREADS, thread_name_prefix="password")
        self._in_progress = 0

    async def hash(self, password: str) -> str:
        """The hash to store for a password. Unavailable if too many wait."""
        return await self._run(lambda: passwords.hash_password(password))

    async def is_right(self, password_hash: str | None, password: str) -> bool:
        """Whether the password is right; without a hash it is not, but finding out takes just as long."""
        known = password_hash or passwords.nobodys_hash()
        return await self._run(lambda: passwords.is_right(known, password))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def place(self) -> Iterator[None]:
        """One of the places for whoever signs in. Unavailable if too many wait."""
        if self._in_progress >= HASHING_THREADS + MAX_WAITING_HASHES:
            raise Unavailable("Too many people are signing in just now; try again.", limit="hashing")
        self._in_progress += 1
        try:
            yield
        finally:
            self._in_progress -= 1

    async def _run(self, work: Callable[[], T]) -> T:
        with self.place():
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)


class LoginThrottle:
    """What one process counts of tries by itself, before it asks the database, which counts those of all.

    So a flood is refused without a write. Used by the event loop alone.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        limits = (tries.OF_ADDRESS, tries.OF_PAIR, tries.OF_NAME, tries.NEW_ACCOUNTS)
        self._buckets = {each: Buckets(each.size, each.leak_s, clock) for each in limits}

    def take(self, counts: Counts, limit: str) -> None:
        """Count one try. RateLimited, named `limit`, which counts none."""
        if (wait_s := max(self._buckets[each].wait_s(key) for each, key in counts)) > 0:
            raise tries.refusal(wait_s, limit)
        for each, key in counts:
            self._buckets[each].add(key, 1)

    def give_back(self, counts: Counts) -> None:
        """The password was correct, so its try does not count."""
        for each, key in counts:
            self._buckets[each].add(key, -1)


class Studio(Struct):
    """The studio's edge in one process, the same from its start to its end."""

    proxies: list[Network]
    times: Times
    base: str = ""
    """The prefix of all our paths, as seen from outside."""
    throttle: LoginThrottle = field(default_factory=LoginThrottle)
    hashing: Hashing = field(default_factory=Hashing)
    pull: BackgroundPull = field(default_factory=BackgroundPull)
    """The download of weights to this machine."""
    seen: LastUse = field(default_factory=LastUse)
    """When sessions were last used; if it is lost with the process, idle sessions end early."""

    def is_https(self, call: Call) -> bool:
        """Whether the browser uses HTTPS."""
        return browser.is_https(call, self.proxies)

    def client_address(self, call: Call) -> str:
        """The address by which tries are counted."""
        return browser.client_address(call, self.proxies)

    def session_sha256(self, call: Call) -> str | None:
        """The stored digest of the session in the cookie; the session may have ended."""
        token = browser.session_token(call, base=self.base, https=self.is_https(call))
        return None if token is None else sessions.token_sha256(token)

    def cookie(self, call: Call, token: str = "", *, seconds: int = 0) -> tuple[bytes, bytes]:
        """The header that sets the session cookie, or removes it."""
        return browser.session_cookie(token, base=self.base, https=self.is_https(call), seconds=seconds)


def make_studio(settings: Settings) -> Studio:
    """The studio's edge as the settings describe it."""
    own = settings.of(StudioSettings)
    times = Times(own.session_idle_hours * HOUR_MS, own.session_days * 24 * HOUR_MS)
    return Studio(proxies=networks(settings.trusted_proxies), times=times, base=settings.base())


def by_session(studio: Studio) -> Identify:
    """The studio's way to identify a caller: the session in the cookie. Keys are ignored."""

    def identify(call: Call) -> AskCaller:
        ask = person_of(studio, call)

        def ask_caller(tx: Asking) -> Callable[[], Caller]:
            read = ask(tx)
            return lambda: read().caller

        return ask_caller

    return identify


def person_of(studio: Studio, call: Call) -> Callable[[Asking], Callable[[], Person]]:
    """The look-up that finds who is signed in. NotSignedIn."""
    sha256 = studio.session_sha256(call)
    if sha256 is None:
        raise NotSignedIn
    now_ms = call.service.clock()

    def ask(tx: Asking) -> Callable[[], Person]:
        read = sessions.ask_person(tx, sha256, times=studio.times, now_ms=now_ms)

        def person() -> Person:
            signed_in = read()
            studio.seen.note(sha256, now_ms)
            return signed_in

        return person

    return ask


async def operator_of(studio: Studio, call: Call) -> Person:
    """The operator who makes the request. Forbidden to everybody else, whatever the path."""
    await call.authenticate()
    person = await call.service.database.look_up(person_of(studio, call))
    if not person.is_operator:
        raise Forbidden("only the operator's account may see and do this")
    return person


async def read_object(call: Call, fields: Mapping[str, Field]) -> dict[str, Any]:
    """The JSON object in the body, by the rules of its fields; InvalidRequest names all faults at once."""
    require_json(call)
    value = strict_json.parse(await call.read_body(), max_values=MAX_VALUES)
    if type(value) is not dict:
        raise InvalidRequest([wrong_type("body", value, "an object")])
    faults: list[Fault] = []
    sent = read_fields(fields, value, "", faults)
    if faults:
        raise InvalidRequest(faults)
    return {name: rule.default for name, rule in fields.items()} | sent


class OrNull(Struct, frozen=True):
    """A field's rule: null, or what another rule allows."""

    rule: Rule

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        return None if value is None else self.rule.read(param, value, faults)


class Strings(Struct, frozen=True):
    """A field's rule: an array of strings, none of them empty."""

    most: int

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not list:
            faults.append(wrong_type(param, value, "an array of strings"))
        elif len(value) > self.most:
            message = f"has {len(value)} items; at most {self.most} are allowed"
            faults.append(Fault(param, "wrong_length", message))
        else:
            wrong = [i for i, item in enumerate(value) if type(item) is not str or not item]
            faults += [wrong_type(f"{param}[{i}]", value[i], "a string") for i in wrong[:MAX_FAULTS_NAMED]]
        return value
