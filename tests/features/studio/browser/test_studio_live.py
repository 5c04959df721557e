"""Pages that follow what happens elsewhere: over one stream for all tabs, or by asking."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect

from features.studio.browser.browser import BUILT, Person, person
from features.studio.browser.conftest import VARIABLES
from servers.service import RunningService

MOST_STREAMS = 100
"""Of an account."""
POLLED_MS = 30_000
"""A page that nobody informs has asked at least twice after that."""
PATIENCE_MS = 120_000
JOIN = """async script => {
  window.news = []
  const worker = new SharedWorker(script, {type: 'module'})
  worker.port.onmessage = ({data}) => window.news.push(data)
  worker.port.postMessage({url: '', account: '', isWanted: false})
}"""


@pytest.fixture(scope="module")
def house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that is killed, and on which an account has as many streams as it may."""
    variables = VARIABLES | {"TENUTO_REQUESTS_AT_ONCE": "0", "TENUTO_CONNECTIONS_PER_ADDRESS": "0"}
    running = RunningService(tmp_path_factory.mktemp("live") / "data", variables=variables)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def somebody(browser: Browser, house: RunningService, request: pytest.FixtureRequest) -> Iterator[Person]:
    """A new account with credit, whose key the service's own requests have."""
    name = request.node.name[5:45]
    with person(browser, house.url) as visitor:
        visitor.register(name)
        house.key = house.make_key(name, credit="10")
        yield visitor

    assert [] == visitor.faults


def join(page: Page) -> None:
    """Have what the worker of all tabs says from now on in `window.news`."""
    [script] = BUILT.parent.glob("assets/changes.worker-*.js")
    page.evaluate(JOIN, f"/assets/{script.name}")


def follows(page: Page) -> None:
    """Wait until the worker has its stream."""
    page.wait_for_function("() => window.news.at(-1)?.isUp === true", timeout=PATIENCE_MS)


def asked(page: Page) -> list[str]:
    """The lists of jobs that the page asks for from now on."""
    found: list[str] = []
    page.on("request", lambda one: found.append(one.url) if "/web/v1/jobs?" in one.url else None)
    return found


def hold_streams(house: RunningService, number: int, stack: ExitStack) -> None:
    """So many streams of the account, all of which are answered."""
    for _ in range(number):
        client = stack.enter_context(socket.create_connection((house.host, house.port), 60))
        client.sendall(
            f"GET /v1/events HTTP/1.1\r\nHost: {house.host}\r\nAccept: text/event-stream\r\n"
            f"Authorization: Bearer {house.key}\r\n\r\n".encode()
        )
        assert client.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.mark.variant("page")
def test_a_job_from_elsewhere_appears_without_a_poll(somebody: Person, house: RunningService) -> None:
    """While nothing happens the list asks for nothing, however long; then it asks for what is new."""
    page = somebody.page
    page.clock.install()
    somebody.open("/jobs")
    join(page)
    follows(page)
    page.clock.run_for(2000)
    polls = asked(page)
    page.clock.run_for(POLLED_MS)
    quiet = len(polls)
    job_id = house.submit("From elsewhere.")
    house.wait(job_id)
    expect(page.locator(".lines.jobs > li")).to_contain_text("From elsewhere.")
    expect(page.locator(".lines.jobs .state")).to_have_text("Succeeded")

    assert 0 == quiet
    assert 1 <= len(polls) <= 6


@pytest.mark.variant("page")
def test_a_restart_hides_nothing(somebody: Person, house: RunningService) -> None:
    """What happens before the stream is there again comes with it."""
    page = somebody.page
    somebody.open("/jobs")
    join(page)
    follows(page)
    house.kill()
    house.start()
    job_id = house.submit("Between two streams.")
    page.wait_for_function(
        "id => window.news.some(({jobId}) => jobId === id)", arg=job_id, timeout=PATIENCE_MS
    )

    expect(page.locator(".lines.jobs > li")).to_contain_text("Between two streams.")


@pytest.mark.variant("page")
def test_tabs_share_one_stream(somebody: Person, house: RunningService) -> None:
    """The only one that the account may still have informs two tabs."""
    with ExitStack() as stack:
        hold_streams(house, MOST_STREAMS - 1, stack)
        somebody.open("/jobs")
        other = stack.enter_context(somebody.page.context.new_page())
        other.goto(f"{house.url}/jobs")
        tabs = (somebody.page, other)
        for tab in tabs:
            join(tab)
        for tab in tabs:
            follows(tab)
        house.submit("For both.")

        for tab in tabs:
            expect(tab.locator(".lines.jobs > li")).to_contain_text("For both.")


@pytest.mark.variant("page")
def test_a_page_that_is_refused_a_stream_asks(somebody: Person, house: RunningService) -> None:
    """What happens elsewhere appears all the same; and when there is room, the page has its stream."""
    page = somebody.page
    with ExitStack() as stack:
        hold_streams(house, MOST_STREAMS, stack)
        somebody.open("/jobs")
        join(page)
        house.submit("Asked for.")
        expect(page.locator(".lines.jobs > li")).to_contain_text("Asked for.", timeout=PATIENCE_MS)
        was_up = page.evaluate("() => window.news.some(({isUp}) => isUp)")
    follows(page)

    assert was_up is False
