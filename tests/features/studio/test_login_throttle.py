"""Limits on guessing: how many tries, from where, at whom; and what they take of memory."""

import pytest

from features.studio.browsers import DAY_MS, PASSWORD, SECOND_MS, Browser, Studio, error
from features.studio.conftest import Open
from tenuto.errors import RateLimited
from tenuto.features.studio import tries
from tenuto.features.studio.tries import Counts
from tenuto.features.telemetry.api_metrics import ApiMetrics


def test_after_five_wrong_passwords_a_name_waits_there(studio: Studio) -> None:
    """429 with Retry-After; even the right password waits, elsewhere it works, and time lets in again."""
    studio.person("me")
    browser = studio.browser()
    tried(studio, browser, ["me"] * 3)
    wrong = [error(browser.log_in("me", "a wrong password")) for _ in range(2)]
    limited = browser.log_in("me")
    elsewhere = studio.browser().log_in("me")
    studio.now_ms += 29 * SECOND_MS
    early = browser.log_in("me")
    studio.now_ms += SECOND_MS

    assert [(401, "invalid_login")] * 2 == wrong
    assert (429, "rate_limited") == error(limited)
    assert {"login_tries": 2.0} == refused(studio)
    assert ("30", "1") == (limited.headers["retry-after"], early.headers["retry-after"])
    assert 200 == elsewhere.status_code
    assert 200 == browser.log_in("me").status_code


def test_the_right_password_costs_no_try(studio: Studio) -> None:
    """Somebody who signs in every minute is not limited."""
    studio.person("me")
    browser = studio.browser()
    tried(studio, browser, ["me"] * 4)

    assert [200, 200] == [browser.log_in("me").status_code for _ in range(2)]


def test_every_way_of_guessing_waits(studio: Studio) -> None:
    """Names that do not exist are limited alike, so that nobody learns which there are. One password for all
    names is guessing, too, and so is the old password of a browser that was left signed in.
    """
    unknown, many, left = studio.browser(), studio.browser(), studio.person("me")
    tried(studio, unknown, ["nobody"] * 4)
    tried(studio, many, [f"name {number}" for number in range(19)])
    tried(studio, left, ["me"] * 4)
    asked = {"old": "a wrong password", "new": "quite another one"}

    assert [401, 429] == [unknown.log_in("nobody").status_code for _ in range(2)]
    assert [401, 429] == [many.log_in(name).status_code for name in ("yet another", "and another")]
    assert [401, 429] == [left.post("/web/password", asked).status_code for _ in range(2)]


def test_a_name_that_is_guessed_at_from_everywhere_waits(studio: Studio) -> None:
    """Many machines have no more tries at one name than it takes to be sure."""
    studio.person("me")
    home = studio.browser()
    assert 200 == home.log_in("me").status_code
    for number in range(50):
        count(studio, tries.of_password(f"10.9.0.{number}", "me"))
    passwords = [PASSWORD, *["a wrong password"] * 6]
    at_home = [home.log_in("me", password).status_code for password in passwords]

    assert (429, "rate_limited") == error(studio.browser().log_in("me"))
    assert (401, "invalid_login") == error(studio.browser().log_in("you"))
    assert [200] + [401] * 5 + [429] == at_home
    studio.now_ms += (tries.KNOWN.leak_s + 1) * SECOND_MS
    for number in range(50):
        count(studio, tries.of_password(f"10.9.0.{number}", "me"))
    assert (429, "rate_limited") == error(home.log_in("me"))


def test_links_and_new_accounts_are_limited_by_address(studio: Studio) -> None:
    """Nobody tries links by the thousand, or makes accounts by the hundred."""
    guessing, making = studio.browser(), studio.browser()
    asked = {"token": "guessed", "password": PASSWORD}
    guessed = [guessing.post("/web/invitations/accept", asked).status_code for _ in range(21)]
    for _ in range(4):
        count(studio, [(tries.NEW_ACCOUNTS, making.address)])
    made = [making.post("/web/register", {"name": name, "password": PASSWORD}).status_code for name in "ab"]

    assert [400] * 20 + [429] == guessed
    assert [201, 429] == made
    assert {"login_tries": 1.0, "new_accounts": 1.0} == refused(studio)


def test_processes_count_together(open_studio: Open) -> None:
    """Several on one database: from one address five accounts, and five tries of a password."""
    processes = [open_studio(registration="open", initial_credit="20") for _ in range(3)]
    address = processes[0].browser().address
    browsers = [process.browser(address=address) for process in processes]
    asked = [{"name": f"eve {number}", "password": PASSWORD} for number in range(7)]
    made = [browsers[n % 3].post("/web/register", body).status_code for n, body in enumerate(asked)]
    tried = [browsers[n % 3].log_in("eve 0", "a wrong password").status_code for n in range(6)]
    sums = processes[0].row("select count(*) as number, sum(available_micros) as money from account")

    assert [201] * 5 + [429] * 2 == made
    assert [401] * 5 + [429] == tried
    assert (5, 5 * 20_000_000) == (sums["number"], sums["money"])


def test_a_flood_is_refused_without_a_write(studio: Studio) -> None:
    """What a process has refused by its own count never reaches the database."""
    browser = studio.browser()
    for _ in range(5):
        studio.edge.throttle.take(tries.of_password(browser.address, "me"), "login_tries")
    refused = {browser.log_in("me").status_code for _ in range(10)}

    assert ({429}, 0) == (refused, rows(studio))


def test_rows_of_tries_go_when_they_count_no_more(studio: Studio) -> None:
    """And they name nobody: they are digests."""
    for number in range(8):
        count(studio, [(tries.OF_ADDRESS, f"10.9.0.{number}")])
    before = rows(studio)
    studio.now_ms += 11 * SECOND_MS
    count(studio, [(tries.OF_ADDRESS, "10.9.1.1")])

    assert (8, 1) == (before, rows(studio))
    assert 64 == len(studio.row("select counted from login_try")["counted"])


def test_a_clock_that_was_wrong_locks_nobody_out(studio: Studio) -> None:
    """Tries that were counted by a clock that was days ahead do not count."""
    counts = tries.of_password("10.9.0.1", "me")
    studio.now_ms += 40 * DAY_MS
    for _ in range(5):
        count(studio, counts)
    studio.now_ms -= 40 * DAY_MS
    for _ in range(5):
        count(studio, counts)

    with pytest.raises(RateLimited):
        count(studio, counts)


def refused(studio: Studio) -> dict[str, float]:
    """What the metrics count of limits that were passed."""
    samples = [
        sample
        for metric in studio.service.part(ApiMetrics).registry.collect()
        for sample in metric.samples
        if sample.name == "tenuto_refused_total" and sample.value
    ]
    return {sample.labels["limit"]: sample.value for sample in samples}


def tried(studio: Studio, browser: Browser, names: list[str]) -> None:
    """As if these names had been tried from the browser's address, at another process: each costs a hash."""
    for name in names:
        count(studio, tries.of_password(browser.address, name))


def count(studio: Studio, counts: Counts) -> None:
    """One try, as any process counts it."""
    now_ms = studio.now_ms
    studio.database.write(lambda tx: tries.take(tx, counts, limit="login_tries", now_ms=now_ms))


def rows(studio: Studio) -> int:
    return int(studio.row("select count(*) as number from login_try")["number"])
