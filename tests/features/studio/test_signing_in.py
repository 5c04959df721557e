"""Who gets in: set-up, registration, invitations, passwords, and how long a session goes on."""

import asyncio
from typing import Literal

import httpx2
import pytest
from argon2 import Parameters, PasswordHasher, extract_parameters
from argon2.profiles import RFC_9106_LOW_MEMORY as COST

from features.studio.browsers import DAY_MS, HOUR_MS, PASSWORD, Browser, Studio, error, faults
from features.studio.conftest import REAL, Open
from tenuto.account import operations as accounts
from tenuto.features.studio import passwords, sessions
from tenuto.features.studio.studio import MAX_WAITING_HASHES

pytestmark = pytest.mark.variant("database", only="postgresql")


def test_the_set_up_link_makes_the_operator_once(studio: Studio) -> None:
    """The first who uses one is the operator; that link and all others are worth nothing after it."""
    first, other = studio.set_up_token(), studio.set_up_token()
    before = studio.browser().session()
    asked = {"token": first, "name": "boss", "password": PASSWORD}
    browser = studio.browser()
    made = browser.post("/web/setup", asked)
    links = studio.row("select count(*) as n from invitation")["n"]
    # Another process had looked whether there is an operator before there was one.
    late = studio.set_up_token()
    later = [
        studio.browser().post("/web/setup", asked | {"name": "mallory", "token": late}),
        studio.browser().post("/web/setup", asked | {"name": "mallory"}),
        studio.browser().post("/web/setup", asked | {"name": "mallory", "token": other}),
        studio.browser().post("/web/setup", asked | {"name": "mallory", "token": "guessed"}),
        studio.browser().post("/web/invitations/accept", {"token": other, "password": PASSWORD}),
    ]

    assert (True, False) == (before["setup_needed"], before["signed_in"])
    assert 201 == made.status_code
    assert made.json() == browser.session()
    assert (False, True) == (made.json()["setup_needed"], made.json()["account"]["operator"])
    assert 0 == links
    assert [[("token", "not_valid")]] * 5 == [faults(answer) for answer in later]
    assert 1 == studio.row("select count(*) as n from account")["n"]


@pytest.mark.parametrize(
    ("options", "chosen", "shown", "begins_with"),
    [
        ({}, {}, 20_000_000, "20.000000"),
        ({"initial_credit": "2.5"}, {"credit_micros": 0}, 2_500_000, "0.000000"),
        ({"prices": "free"}, {}, 0, "0.000000"),
    ],
)
def test_the_operator_begins_with_the_credit_of_their_choice(
    open_studio: Open, options: dict[str, str], chosen: dict[str, int], shown: int, begins_with: str
) -> None:
    """The set-up page is told what is usual; without a choice that is booked, once."""
    studio = open_studio(**options)
    browser = studio.browser()
    before = browser.session()
    asked = {"token": studio.set_up_token(), "name": "boss", "password": PASSWORD}
    wrong = browser.post("/web/setup", asked | {"credit_micros": -1})
    made = browser.post("/web/setup", asked | chosen)
    balance = browser.get("/web/v1/account/balance").json()

    assert (shown, options.get("prices", "contract")) == (before["initial_credit_micros"], before["prices"])
    assert [("credit_micros", "out_of_range")] == faults(wrong)
    assert (201, begins_with) == (made.status_code, balance["available"])


def test_a_set_up_link_ends_after_a_day(studio: Studio) -> None:
    """A link that was left in a log opens nothing."""
    token = studio.set_up_token()
    studio.pass_time(DAY_MS)
    answer = studio.browser().post("/web/setup", {"token": token, "name": "late", "password": PASSWORD})

    assert [("token", "not_valid")] == faults(answer)


def test_the_operator_may_take_an_account_that_had_keys_alone(studio: Studio) -> None:
    """A service that was used before the studio came keeps its account, its keys and its money."""
    account_id = studio.database.write(
        lambda tx: accounts.create_account(tx, studio.service.ids, name="me", now_ms=studio.now_ms)
    )

    assert account_id == studio.operator("me").account_id()


def test_everybody_may_register_where_that_is_open(open_studio: Open) -> None:
    """An account with the credit that the operator gives, signed in, no operator (R206)."""
    studio = open_studio(registration="open", initial_credit="2.5")
    browser = studio.browser()
    made = browser.post("/web/register", {"name": "甲", "password": PASSWORD})
    session = browser.session()
    balance = browser.get("/web/v1/account/balance").json()

    assert (201, session) == (made.status_code, made.json())
    assert (True, "甲", False) == (
        session["signed_in"],
        session["account"]["name"],
        session["account"]["operator"],
    )
    assert (2_500_000, "open") == (session["initial_credit_micros"], session["registration"])
    assert ("2.500000", "0.000000") == (balance["available"], balance["held"])


def test_names_and_passwords_that_are_none_are_refused(studio: Studio) -> None:
    """All at once where they can be told at once; nothing is stored."""
    studio.person("taken")
    before = studio.row("select count(*) as n from account")["n"]
    cases = {
        ("taken", PASSWORD): [("name", "taken")],
        (" led", PASSWORD): [("name", "invalid_name")],
        ("a\u202eb", PASSWORD): [("name", "invalid_name")],
        ("x" * 81, PASSWORD): [("name", "invalid_name")],
        ("short", "123456789"): [("password", "wrong_length")],
        ("long", "ab1" * 67): [("password", "wrong_length")],
        ("poor", "aaaabbbbccc"): [("password", "too_simple")],
        ("the same name", "The Same Name"): [("password", "too_simple")],
        ("", "123"): [("name", "empty")],
        ("\ttab", "123"): [("name", "invalid_name"), ("password", "wrong_length")],
    }
    told = {
        (name, password): faults(studio.browser().post("/web/register", {"name": name, "password": password}))
        for name, password in cases
    }
    strange = studio.browser().post("/web/register", {"name": 7, "pasword": PASSWORD})

    assert cases == told
    assert [("name", "wrong_type"), ("password", "required"), ("pasword", "unknown_name")] == faults(strange)
    assert before == studio.row("select count(*) as n from account")["n"]


@pytest.mark.parametrize("registration", ["open", "invite", "closed"])
def test_strangers_are_told_what_the_sign_in_page_needs(open_studio: Open, registration: str) -> None:
    """Neither version nor webhooks nor, unless everybody may register, what an account begins with (P16).
    Where that is not open nobody registers.
    """
    studio = open_studio(registration=registration, initial_credit="2.5")
    signed_in = studio.person("somebody").session()
    studio.operator()
    known = {"signed_in", "account", "registration", "setup_needed", "build"}
    credit = {"initial_credit_micros", "prices"} if registration == "open" else set()

    made = studio.browser().post("/web/register", {"name": "me", "password": PASSWORD})

    assert (201 if registration == "open" else 403) == made.status_code
    assert known | credit == set(studio.browser().session())
    assert known | {"initial_credit_micros", "prices", "version", "webhooks"} == set(signed_in)


def test_an_invitation_sets_a_password_once(open_studio: Open) -> None:
    """The link ends when it is used, when another is made, and after a week."""
    studio = open_studio(registration="invite")
    operator = studio.operator()
    made = operator.post("/web/operator/accounts", {"name": "guest"}).json()
    again = operator.post(f"/web/operator/accounts/{made['id']}/invitation").json()
    answers = [accept(studio.browser(), path) for path in (made["invitation_path"], again["invitation_path"])]
    used = accept(studio.browser(), again["invitation_path"])
    late = operator.post(f"/web/operator/accounts/{made['id']}/invitation").json()["invitation_path"]
    studio.pass_time(7 * DAY_MS)

    assert [400, 201] == [answer.status_code for answer in answers]
    assert {"id": made["id"], "name": "guest", "operator": False} == answers[1].json()["account"]
    assert [("token", "not_valid")] == faults(used)
    assert [("token", "not_valid")] == faults(accept(studio.browser(), late))
    assert 200 == studio.browser().log_in("guest").status_code


def test_a_link_for_a_lost_password_ends_every_session(studio: Studio) -> None:
    """Whoever had the old password is out; the new one lets in, the old one does not."""
    operator, thief = studio.operator(), studio.person("victim")
    account_id = thief.account_id()
    path = operator.post(f"/web/operator/accounts/{account_id}/invitation").json()["invitation_path"]
    owner = studio.browser()
    accepted = accept(owner, path, "quite another one")

    assert 201 == accepted.status_code
    assert (None, "victim") == (thief.name(), owner.name())
    assert (401, "invalid_login") == error(studio.browser().log_in("victim"))
    assert 200 == studio.browser().log_in("victim", "quite another one").status_code


def test_a_closed_service_takes_nobody_new(open_studio: Open) -> None:
    """Links that were sent before are refused, too; who has a password may set another."""
    before, closed = open_studio(registration="invite"), open_studio(registration="closed")
    operator = before.operator()
    waiting = operator.post("/web/operator/accounts", {"name": "waiting"}).json()
    known = operator.post("/web/operator/accounts", {"name": "known"}).json()
    accept(before.browser(), known["invitation_path"])
    chief = closed.browser()
    chief.log_in("operator")
    refused = [
        accept(closed.browser(), waiting["invitation_path"]),
        chief.post("/web/operator/accounts", {"name": "new"}),
        chief.post(f"/web/operator/accounts/{waiting['id']}/invitation"),
    ]
    link = chief.post(f"/web/operator/accounts/{known['id']}/invitation").json()["invitation_path"]

    assert [(403, "forbidden")] * 3 == [error(answer) for answer in refused]
    assert 201 == accept(closed.browser(), link).status_code


def test_a_wrong_name_and_a_wrong_password_are_answered_alike(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same words, for as much work, so that nobody finds out which names there are."""
    costs: list[Parameters] = []

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002
            costs.append(extract_parameters(str(hash)))
            return super().verify(hash, password)

    monkeypatch.setattr(passwords, "_hasher", Counting.from_parameters(COST))
    studio.browser().post("/web/register", {"name": "known", "password": PASSWORD})
    answers = [studio.browser().log_in(name, "a wrong password") for name in ("known", "unknown")]

    told = {(answer.status_code, answer.json()["error"]["message"]) for answer in answers}
    assert {(401, "The name or the password is wrong.")} == told
    assert 2 == len(costs) and costs[0] == costs[1]


def test_a_password_is_the_same_however_it_is_composed(studio: Studio) -> None:
    """What one keyboard sends as one character and another as two lets in (NFKC)."""
    browser = studio.browser()
    browser.post("/web/register", {"name": "composed", "password": "café au lait ﬁn"})

    assert 200 == studio.browser().log_in("composed", "cafe\u0301 au lait fin").status_code


def test_signing_in_begins_a_session_under_a_new_id(studio: Studio) -> None:
    """A session that somebody planted is not taken over, and the one before ends (fixation)."""
    studio.person("me")
    planted = "A" * 43
    browser = studio.browser()
    browser.cookies.set("tenuto_session", planted, domain="studio.test")
    nobody = browser.name()
    browser.log_in("me")
    first = browser.cookies["tenuto_session"]
    browser.log_in("me")
    second = browser.cookies["tenuto_session"]
    stale = studio.browser()
    stale.cookies.set("tenuto_session", first, domain="studio.test")

    assert nobody is None
    assert 3 == len({planted, first, second})
    assert ("me", None) == (browser.name(), stale.name())


def test_nothing_that_lets_in_is_stored(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sessions and links there are digests, of passwords argon2id with a salt each (P16)."""
    monkeypatch.setattr(passwords, "_hasher", REAL)
    browser, token = studio.browser(), studio.set_up_token()
    browser.post("/web/register", {"name": "me", "password": PASSWORD})
    studio.browser().post("/web/register", {"name": "you", "password": PASSWORD})
    kept = [
        str(row[name])
        for table in ("login", "web_session", "invitation")
        for row in studio.database.read(lambda tx, table=table: tx.all(f"select * from {table}"))  # type: ignore[misc]
        for name in row.keys()  # noqa: SIM118 (a row is no dict)
    ]
    hashes = [text for text in kept if text.startswith("$argon2id$v=19$m=65536,t=3,p=4$")]

    assert [] == [text for text in kept if PASSWORD in text or token in text]
    assert browser.cookies["tenuto_session"] not in kept
    assert sessions.token_sha256(browser.cookies["tenuto_session"]) in kept
    assert (2, 2) == (len(hashes), len(set(hashes)))


def test_a_session_ends_when_it_is_idle(open_studio: Open) -> None:
    """So many hours without a request; each request makes it go on, also one that only reads."""
    studio = open_studio(registration="open", session_idle_hours=2)
    browser, idle = studio.person("me"), studio.person("you")
    for _ in range(3):
        studio.pass_time(HOUR_MS)
        assert 200 == browser.get("/web/v1/models").status_code
    studio.pass_time(0)

    assert (401, "not_signed_in") == error(idle.get("/web/v1/models"))
    assert "me" == browser.name()
    studio.pass_time(2 * HOUR_MS)
    assert browser.name() is None
    assert "tenuto_session" not in browser.cookies


def test_a_session_ends_in_any_case(open_studio: Open) -> None:
    """So many days after the password was typed, however much it is used."""
    studio = open_studio(registration="open", session_days=2, session_idle_hours=48)
    browser = studio.person("me")
    names = []
    for _ in range(3):
        names.append(browser.name())
        studio.pass_time(DAY_MS)

    assert ["me", "me", None] == names


def test_signing_out_ends_the_session_for_good(studio: Studio) -> None:
    """The cookie goes, and whoever kept a copy of it has nothing."""
    browser, copy = studio.person("me"), studio.browser()
    copy.cookies.set("tenuto_session", browser.cookies["tenuto_session"], domain="studio.test")
    answers = [browser.post("/web/logout"), browser.post("/web/logout")]

    assert [204, 204] == [answer.status_code for answer in answers]
    assert [b"", b""] == [answer.content for answer in answers]
    assert "tenuto_session" not in browser.cookies
    assert (None, None) == (browser.name(), copy.name())


def test_another_password_ends_all_other_sessions(studio: Studio) -> None:
    """This one goes on under a new id; a wrong old password changes nothing."""
    here, there = studio.person("me"), studio.browser()
    there.log_in("me")
    before = here.cookies["tenuto_session"]
    wrong = here.post("/web/password", {"old": "not the password", "new": "quite another one"})
    poor = here.post("/web/password", {"old": PASSWORD, "new": "short"})
    still = there.name()
    done = here.post("/web/password", {"old": PASSWORD, "new": "quite another one"})

    assert (401, "invalid_login") == error(wrong)
    assert [("new", "wrong_length")] == faults(poor)
    assert ("me", 204) == (still, done.status_code)
    assert (None, "me") == (there.name(), here.name())
    assert before != here.cookies["tenuto_session"]
    assert (401, "invalid_login") == error(studio.browser().log_in("me"))
    assert 200 == studio.browser().log_in("me", "quite another one").status_code


def test_an_account_has_only_so_many_sessions(studio: Studio) -> None:
    """Beyond a hundred the oldest ends, so that signing in fills no disk (P14)."""
    browser = studio.person("me")
    account_id = browser.account_id()
    for number in range(sessions.MAX_SESSIONS):
        studio.now_ms += 1
        studio.begin(account_id, f"{number:064}")

    assert browser.name() is None
    assert sessions.MAX_SESSIONS == studio.row("select count(*) as n from web_session")["n"]


def test_sessions_that_ended_leave_no_rows(studio: Studio) -> None:
    """The next one who signs in sweeps them up (P14)."""
    studio.person("me")
    studio.person("you")
    studio.pass_time(31 * DAY_MS)
    studio.person("they")

    assert 1 == studio.row("select count(*) as n from web_session")["n"]


def test_hashing_holds_nobody_up(studio: Studio) -> None:
    """While a password is hashed other requests are answered; some are hashed, the rest come again (P14)."""
    studio.edge.hashing._in_progress = MAX_WAITING_HASHES
    browsers = [studio.browser() for _ in range(4)]
    ended: list[str] = []

    async def log_in(number: int) -> httpx2.Response:
        head = {"Origin": browsers[number].origin, "X-Forwarded-For": browsers[number].address}
        asked = {"name": f"name {number}", "password": PASSWORD}
        answer = await browsers[number].send("POST", "/web/login", headers=head, json=asked)
        ended.append("refused" if answer.status_code == 503 else "hashed")
        return answer

    async def everybody() -> list[httpx2.Response]:
        logins = [asyncio.ensure_future(log_in(number)) for number in range(3)]
        await asyncio.sleep(0)
        for _ in range(3):
            await browsers[3].send("GET", "/web/session")
            ended.append("session")
        return await asyncio.gather(*logins)

    answers = studio.loop.run_until_complete(everybody())
    refused = [answer for answer in answers if answer.status_code != 401]

    assert [401, 401, 503] == sorted(answer.status_code for answer in answers)
    assert ended.index("session") < ended.index("hashed")
    assert ended.index("refused") < ended.index("hashed")
    assert "2" == refused[0].headers["retry-after"]


def accept(browser: Browser, path: str, password: str = PASSWORD) -> httpx2.Response:
    """Use the link of an invitation."""
    token = path.removeprefix("/invite#")
    return browser.post("/web/invitations/accept", {"token": token, "password": password})
