"""The studio below a path of its host: every page, every file and every request is below it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from features.studio.browser.browser import PASSWORD, person
from servers.service import RunningService

pytestmark = pytest.mark.variant("page")

PREFIX = "/a/tenuto"
PAGES = ("/voices", "/chat", "/jobs", "/keys", "/nowhere")


@pytest.fixture(scope="module")
def placed_house(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service below a path, where everybody may register."""
    running = RunningService(
        tmp_path_factory.mktemp("placed") / "data",
        variables={"TENUTO_REGISTRATION": "open", "TENUTO_BASE_PATH": PREFIX},
    )
    running.start()
    yield running
    running.stop()


def test_a_person_walks_through_the_studio_below_a_path(
    browser: Browser, placed_house: RunningService
) -> None:
    """Registered by hand, a job made and heard, every page opened by its link; nothing leaves the path."""
    refused: list[str] = []
    with person(browser, placed_house.url + PREFIX) as somebody:
        page = somebody.page
        page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
        somebody.open("/speech")
        asked_first = page.url
        page.get_by_role("link", name="Make an account").click()
        page.get_by_label("Account name").fill("韩梅梅")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Make the account").click()
        page.get_by_role("link", name="Speech", exact=True).first.click()
        page.get_by_label("The text to speak").fill("Hold the note.")
        page.get_by_role("button", name="Generate").click()
        page.get_by_label("Position").wait_for()
        file = page.locator("figure.waveform a[download]").get_attribute("href") or ""
        links = [link.get_attribute("href") or "" for link in page.locator("a[href]").all()]
        for path in PAGES:
            somebody.open(path)
            somebody.settle()
        cookies = [(cookie["name"], cookie["path"]) for cookie in page.context.cookies()]

    assert asked_first.endswith(f"{PREFIX}/login?next=%2Fspeech")
    assert file.startswith(f"{PREFIX}/web/v1/artifacts/")
    assert not [link for link in links if not link.startswith((f"{PREFIX}/", "#"))]
    assert [("tenuto_session", PREFIX)] == cookies
    assert [] == somebody.faults
    assert [f"{placed_house.url}{PREFIX}/nowhere"] == refused
