"""Signing in and out over HTTP: set-up, registration, invitations, passwords, and who is signed in."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from tenuto.account.key_rules import check_name, normal_name
from tenuto.api.answers import Answer, json_answer
from tenuto.api.call import Call
from tenuto.db.database import ConstraintFailed, Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import Fault, Forbidden, InvalidLogin, InvalidRequest, RateLimited
from tenuto.features.studio import invitations, pages, passwords, sessions, tries
from tenuto.features.studio import people_operations as people
from tenuto.features.studio.sessions import Person
from tenuto.features.studio.settings import StudioSettings
from tenuto.features.studio.studio import Studio, person_of, read_object
from tenuto.features.studio.tries import Counts
from tenuto.features.webhooks.settings import WebhookSettings
from tenuto.logs import get_logger
from tenuto.money.rules import MAX_MICROS
from tenuto.rules import Field, Integer, Text, by_name

MAX_TOKEN_CHARACTERS = 100
MAX_TYPED_CHARACTERS = 1000

_NAME = Field("name", Text(MAX_TYPED_CHARACTERS, "characters"), "who signs in", required=True)
_PASSWORD = Field("password", Text(MAX_TYPED_CHARACTERS, "characters"), "the password", required=True)
_TOKEN = Field(
    "token", Text(MAX_TOKEN_CHARACTERS, "characters"), "the part of the link after #", required=True
)
_LOGIN = by_name([_NAME, _PASSWORD])
_SET_UP = by_name([
    _TOKEN,
    _NAME,
    _PASSWORD,
    Field("credit_micros", Integer(0, MAX_MICROS), "what the account begins with; left out: by the settings"),
])  # fmt: skip
_ACCEPT = by_name([_TOKEN, _PASSWORD])
_CHANGE = by_name([
    Field("old", Text(MAX_TYPED_CHARACTERS, "characters"), "the password as it was", required=True),
    Field("new", Text(MAX_TYPED_CHARACTERS, "characters"), "the password from now on", required=True),
])  # fmt: skip
VERSION = version("tenuto")
BUILD = pages.build()
"""Lets a page notice that the service was replaced. The version is not shown to strangers."""
_log = get_logger("tenuto.web")


async def show(studio: Studio, call: Call) -> Answer:
    """GET /web/session: who is signed in, and how others can sign in."""
    sha256 = studio.session_sha256(call)
    now_ms = call.service.clock()

    def find(tx: Transaction) -> tuple[Person | None, bool]:
        person = None if sha256 is None else sessions.find(tx, sha256, times=studio.times, now_ms=now_ms)
        return person, people.needs_set_up(tx)

    person, needs_set_up = await call.service.database.read_async(find)
    session = json_answer(200, _session(call, person, needs_set_up=needs_set_up))
    if person is not None and sha256 is not None:
        studio.seen.note(sha256, now_ms)
    elif sha256 is not None:
        session.headers.append(studio.cookie(call))
    return session


async def set_up(studio: Studio, call: Call) -> Answer:
    """POST /web/setup: create the operator, by the link that `serve` printed."""
    sent = await read_object(call, _SET_UP)
    _check_choice(sent["name"], sent["password"])
    chosen, settings = sent["credit_micros"], call.service.settings
    credit = settings.initial_credit_micros() if chosen is None else chosen
    ids, now_ms, sha256 = call.service.ids, call.service.clock(), sessions.token_sha256(sent["token"])
    await _check_link(studio, call, sha256, is_for=lambda account_id: account_id is None)
    hashed = await studio.hashing.hash(sent["password"])

    def make(tx: Transaction) -> str:
        account_id, is_new = people.set_up(
            tx, ids, token_sha256=sha256, name=sent["name"], password_hash=hashed, now_ms=now_ms
        )
        if is_new:
            invitations.credit_opening(tx, ids, account_id, amount_micros=credit, now_ms=now_ms)
        return account_id

    entered = await _enter(studio, call, make)
    _log.warning("operator.made", request_id=call.request_id)
    return entered


async def register(studio: Studio, call: Call) -> Answer:
    """POST /web/register: an account for anyone, if the operator has opened registration."""
    if call.service.settings.of(StudioSettings).registration != "open":
        raise Forbidden("this service does not let people register; ask whoever runs it for an invitation")
    sent = await read_object(call, _LOGIN)
    _check_choice(sent["name"], sent["password"])
    await _take(studio, call, [(tries.NEW_ACCOUNTS, studio.client_address(call))], "new_accounts")
    ids, now_ms = call.service.ids, call.service.clock()
    hashed = await studio.hashing.hash(sent["password"])

    def make(tx: Transaction) -> str:
        account_id = people.register(tx, ids, name=sent["name"], password_hash=hashed, now_ms=now_ms)
        invitations.give_opening(tx, ids, call.service.settings, account_id, now_ms=now_ms)
        return account_id

    return await _enter(studio, call, make)


async def accept(studio: Studio, call: Call) -> Answer:
    """POST /web/invitations/accept: set the password that the link is for."""
    sent = await read_object(call, _ACCEPT)
    ids, now_ms, sha256 = call.service.ids, call.service.clock(), sessions.token_sha256(sent["token"])
    name = await _check_link(studio, call, sha256, is_for=lambda account_id: account_id is not None)
    _refuse_password("password", sent["password"], name=name)
    hashed = await studio.hashing.hash(sent["password"])

    def make(tx: Transaction) -> str:
        invited = people.find_invitation(tx, sha256, now_ms=now_ms).account_id
        if invited is not None and not people.has_password(tx, invited):
            invitations.refuse_closed(call.service.settings)
        return people.accept(tx, ids, token_sha256=sha256, password_hash=hashed, now_ms=now_ms)

    return await _enter(studio, call, make)


async def log_in(studio: Studio, call: Call) -> Answer:
    """POST /web/login. An unknown name takes as long as a wrong password, and gets the same answer."""
    sent = await read_object(call, _LOGIN)
    name, password = sent["name"], sent["password"]
    counts = await _counts(studio, call, name)
    await _take(studio, call, counts)
    login = await call.service.database.read_async(lambda tx: people.find_login(tx, name))
    known = None if login is None else login.password_hash
    if not await studio.hashing.is_right(known, password) or login is None:
        raise InvalidLogin
    await _give_back(studio, call, counts)
    renewed = await studio.hashing.hash(password) if passwords.is_outdated(login.password_hash) else None

    def enter(tx: Transaction) -> str:
        people.refuse_suspended(tx, login.account_id)
        # If the password was changed since the check, all sessions were ended, and none may begin.
        if people.find_login(tx, name) != login:
            raise InvalidLogin
        if renewed is not None:
            people.renew_hash(tx, account_id=login.account_id, old_hash=login.password_hash, new_hash=renewed)
        return login.account_id

    return await _enter(studio, call, enter, status=200)


async def log_out(studio: Studio, call: Call) -> Answer:
    """POST /web/logout: also without a session, so that signing out never fails."""
    await call.read_body()
    sha256 = studio.session_sha256(call)
    if sha256 is not None:
        studio.seen.forget(sha256)
        await call.service.database.write_async(lambda tx: sessions.end(tx, sha256))
    return Answer(204, b"", [studio.cookie(call)])


async def change_password(studio: Studio, call: Call) -> Answer:
    """POST /web/password: every other session ends, and this one continues under a new id."""
    await call.authenticate()
    person = await call.service.database.look_up(person_of(studio, call))
    sent = await read_object(call, _CHANGE)
    _refuse_password("new", sent["new"], name=person.name)
    counts = await _counts(studio, call, person.name)
    await _take(studio, call, counts)
    if not await studio.hashing.is_right(person.password_hash, sent["old"]):
        raise InvalidLogin("the old password is wrong")
    await _give_back(studio, call, counts)
    hashed, now_ms = await studio.hashing.hash(sent["new"]), call.service.clock()

    def change(tx: Transaction) -> str:
        account_id = person.caller.account_id
        if not people.change_password(
            tx, account_id=account_id, old_hash=person.password_hash, new_hash=hashed, now_ms=now_ms
        ):
            raise InvalidLogin("the old password is wrong")
        return account_id

    entered = await _enter(studio, call, change)
    return Answer(204, b"", entered.headers)


async def _check_link(
    studio: Studio, call: Call, sha256: str, *, is_for: Callable[[str | None], bool]
) -> str:
    """Whom a link is for, checked before its password costs a hash. Guesses of links are limited, too."""
    now_ms, counts = call.service.clock(), tries.of_password(studio.client_address(call), "")
    await _take(studio, call, counts)
    invitation = await call.service.database.read_async(
        lambda tx: people.find_invitation(tx, sha256, now_ms=now_ms)
    )
    if not is_for(invitation.account_id):
        raise people.used_link()
    await _give_back(studio, call, counts)
    return invitation.name or ""


async def _enter(
    studio: Studio, call: Call, make: Callable[[Transaction], str], *, status: int = 201
) -> Answer:
    """Create or find the account with `make`, and begin a session for it, in one transaction."""
    token = sessions.new_token()
    sha256, ended, now_ms = sessions.token_sha256(token), studio.session_sha256(call), call.service.clock()

    def enter(tx: Transaction) -> tuple[Person, bool]:
        # A first try whose answer was lost has begun the session; nobody else has its token.
        if sessions.find(tx, sha256, times=studio.times, now_ms=now_ms) is None:
            account_id = make(tx)
            sessions.begin(tx, sha256, account_id=account_id, times=studio.times, now_ms=now_ms, ends=ended)
        person = sessions.person(tx, sha256, times=studio.times, now_ms=now_ms)
        tries.note_known(tx, studio.client_address(call), normal_name(person.name), now_ms=now_ms)
        return person, people.needs_set_up(tx)

    try:
        person, needs_set_up = await write_known_async(call.service.database, enter)
    except ConstraintFailed:
        # Two requests created an account with the same name at once.
        raise people.taken_name() from None
    entered = json_answer(status, _session(call, person, needs_set_up=needs_set_up))
    seconds = studio.times.longest_ms // 1000
    entered.headers.append(studio.cookie(call, token, seconds=seconds))
    return entered


async def _counts(studio: Studio, call: Call, name: str) -> Counts:
    """What a try of a name's password counts for. All spellings of a name share one count."""
    address, normal, now_ms = studio.client_address(call), normal_name(name), call.service.clock()
    read = call.service.database.read_async
    is_known = await read(lambda tx: tries.is_known(tx, address, normal, now_ms=now_ms))
    return tries.of_password(address, normal, is_known=is_known)


async def _take(studio: Studio, call: Call, counts: Counts, limit: str = "login_tries") -> None:
    """Count one try, in this process and then in the database. RateLimited, Unavailable."""
    now_ms = call.service.clock()
    try:
        studio.throttle.take(counts, limit)
        with studio.hashing.place():
            await call.service.database.write_async(
                lambda tx: tries.take(tx, counts, limit=limit, now_ms=now_ms)
            )
    except RateLimited:
        _log.warning("login.limited", address=studio.client_address(call))
        raise


async def _give_back(studio: Studio, call: Call, counts: Counts) -> None:
    studio.throttle.give_back(counts)
    await call.service.database.write_async(lambda tx: tries.give_back(tx, counts))


def _check_choice(name: str, password: str) -> None:
    """Refuse a bad choice of name or password, with all faults at once, before it costs a hash."""
    faults: list[Fault] = []
    try:
        check_name(name, "an account")
    except InvalidRequest as error:
        faults += error.faults
    fault = passwords.password_fault("password", password, name=name)
    if faults or fault is not None:
        raise InvalidRequest([*faults, *([fault] if fault else [])])


def _refuse_password(param: str, password: str, *, name: str) -> None:
    fault = passwords.password_fault(param, password, name=name)
    if fault is not None:
        raise InvalidRequest([fault])


def _session(call: Call, person: Person | None, *, needs_set_up: bool) -> dict[str, Any]:
    settings = call.service.settings
    registration = settings.of(StudioSettings).registration
    account = person and {
        "id": person.caller.account_id,
        "name": person.name,
        "operator": person.is_operator,
    }
    session: dict[str, Any] = {
        "signed_in": person is not None,
        "account": account,
        "registration": registration,
        "setup_needed": needs_set_up,
        "build": BUILD,
    }
    if person is not None:
        session["version"] = VERSION
        session["webhooks"] = settings.of(WebhookSettings).webhooks != "off"
    if registration == "open" or needs_set_up:
        # The pages on which an account is created show the opening credit.
        session["initial_credit_micros"] = settings.initial_credit_micros()
        session["prices"] = settings.prices
    if person is not None:
        session["prices"] = settings.prices
    return session
