"""The studio as a person meets it: a browser, and a service with everything real or with the fake engines.

Without a browser or a built studio everything here fails with the reason: what is skipped is not tested.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from features.studio.browser.browser import WAIT_MS, Cookies, Person, launch, person, why_not
from servers.service import RunningService

# What is expected waits as long as what is pressed: five seconds are too few on a busy machine.
expect.set_options(timeout=WAIT_MS)
VARIABLES = {
    "TENUTO_REGISTRATION": "open",
    "TENUTO_TRUSTED_PROXIES": "127.0.0.1",
    "TENUTO_INITIAL_CREDIT": "20",
    "TENUTO_REQUESTS_PER_SECOND": "0",
    "TENUTO_WEBHOOKS": "any",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a file: while it is there, its event loop is that of the whole process."""
    if reason := why_not():
        pytest.fail(reason)
    with sync_playwright() as playwright:
        launched = launch(playwright)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def fake_house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with the fake engines where everybody may register."""
    running = RunningService(tmp_path_factory.mktemp("studio") / "data", variables=VARIABLES)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def real_house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with the real engines where everybody may register."""
    folder = tmp_path_factory.mktemp("studio") / "data"
    running = RunningService(folder, engines="real", variables=VARIABLES)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def visitor(browser: Browser, fake_house: RunningService) -> Iterator[Person]:
    """Somebody who is not signed in; at the end the page has done nothing that it must not."""
    with person(browser, fake_house.url) as somebody:
        yield somebody

    assert [] == somebody.faults


@pytest.fixture(scope="module")
def operator_cookie(browser: Browser, fake_house: RunningService) -> Cookies:
    """The session of the operator, who used the link that the service printed."""
    link = fake_house.set_up_link()
    with person(browser, fake_house.url) as somebody:
        somebody.set_up(link)
        return somebody.page.context.cookies()


@pytest.fixture(scope="module")
def member(browser: Browser, fake_house: RunningService) -> Cookies:
    """The session of an account like any other."""
    with person(browser, fake_house.url) as somebody:
        somebody.register("member")
        return somebody.page.context.cookies()
