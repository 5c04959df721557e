"""Limits on guessing: how many tries, from where, at whom; and what they take of memory."""

from tenuto.api.limits import MAX_KEYS, Buckets
from web.browsers import PASSWORD, SECOND_MS, Browser, Studio, error


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


def test_names_that_do_not_exist_are_limited_alike(studio: Studio) -> None:
    """So the limit does not tell which names there are."""
    browser = studio.browser()
    tried(studio, browser, ["nobody"] * 4)

    assert [401, 429] == [browser.log_in("nobody").status_code for _ in range(2)]


def test_an_address_that_tries_many_names_waits(studio: Studio) -> None:
    """One password for all names is guessing, too."""
    browser = studio.browser()
    tried(studio, browser, [f"name {number}" for number in range(19)])

    assert [401, 429] == [browser.log_in(name).status_code for name in ("yet another", "and another")]


def test_a_name_that_is_guessed_at_from_everywhere_waits(studio: Studio) -> None:
    """Many machines have no more tries at one name than it takes to be sure."""
    for number in range(50):
        studio.edge.throttle.take(f"10.9.0.{number}", "me")

    assert (429, "rate_limited") == error(studio.browser().log_in("me"))
    assert (401, "invalid_login") == error(studio.browser().log_in("you"))


def test_links_and_new_accounts_are_limited_by_address(studio: Studio) -> None:
    """Nobody tries links by the thousand, or makes accounts by the hundred."""
    guessing, making = studio.browser(), studio.browser()
    asked = {"token": "guessed", "password": PASSWORD}
    guessed = [guessing.post("/web/invitations/accept", asked).status_code for _ in range(21)]
    for _ in range(4):
        studio.edge.throttle.take_account(making.address)
    made = [making.post("/web/register", {"name": name, "password": PASSWORD}).status_code for name in "ab"]

    assert [400] * 20 + [429] == guessed
    assert [201, 429] == made
    assert {"login_tries": 1.0, "new_accounts": 1.0} == refused(studio)


def test_the_old_password_is_guessed_under_the_same_limit(studio: Studio) -> None:
    """Who finds a browser signed in can't try passwords without end."""
    browser = studio.person("me")
    asked = {"old": "a wrong password", "new": "quite another one"}
    tried(studio, browser, ["me"] * 4)

    assert [401, 429] == [browser.post("/web/password", asked).status_code for _ in range(2)]


def test_buckets_leak_with_time_and_forget_what_is_empty() -> None:
    """So many at once, then one every so many seconds."""
    now = 0.0
    buckets = Buckets(2, 10.0, lambda: now)
    buckets.add("a", 2)
    full = buckets.wait_s("a")
    now = 5.0
    sooner = buckets.wait_s("a")
    now = 10.0
    again = buckets.wait_s("a")
    buckets.add("a", -5)

    assert (10.0, 5.0, 0.0) == (full, sooner, again)
    assert 0 == len(buckets._levels)


def test_the_memory_of_tries_is_bounded() -> None:
    """A flood of names forgets the one that was not tried for longest, not the one tried now (P14)."""
    buckets = Buckets(1, 1e9)
    for number in range(MAX_KEYS + 10):
        buckets.add(f"name {number}", 1)
        buckets.add("tried now", 0 if number else 1)

    assert MAX_KEYS == len(buckets._levels)
    assert 0.0 == buckets.wait_s("name 0")
    assert 0.0 < buckets.wait_s("tried now")


def refused(studio: Studio) -> dict[str, float]:
    """What the metrics count of limits that were passed."""
    samples = [
        sample
        for metric in studio.service.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "tenuto_refused_total" and sample.value
    ]
    return {sample.labels["limit"]: sample.value for sample in samples}


def tried(studio: Studio, browser: Browser, names: list[str]) -> None:
    """As if these names had been tried from the browser's address: trying costs a hash each."""
    for name in names:
        studio.edge.throttle.take(browser.address, name)
