"""The list of jobs: filters, choosing many at once, saving and erasing them, and a list without an end."""

import io
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from features.studio.browser.browser import Cookies, Person, person
from servers.service import RunningService

HUNDREDS = 210
PASSED = """async () => {
  const [ids, drawn] = [new Set(), []]
  for (let y = 0; y < document.documentElement.scrollHeight; y += 400) {
    window.scrollTo(0, y)
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))
    const rows = [...document.querySelectorAll('.lines.jobs .what > a')]
    drawn.push(rows.length)
    for (const row of rows) {
      const {top} = row.getBoundingClientRect()
      if (top >= 0 && top < window.innerHeight) ids.add(row.getAttribute('href').split('/').at(-1))
    }
  }
  return {ids: [...ids], most: Math.max(...drawn)}
}"""
"""Scrolls from the top to the end: the jobs that came into sight, and how many were drawn at a time."""
MANY = """async ([count, label]) => {
  const headers = () => ({'Content-Type': 'application/json', 'Idempotency-Key': crypto.randomUUID()})
  const ids = []
  for (let n = 0; n < count; n++) {
    const parameters = {prompt: `${label} ${n}`}
    const body = JSON.stringify({model: 'fake/image', parameters, metadata: {chapter: label, [label]: 'yes'}})
    const answer = await fetch('/web/v1/jobs', {method: 'POST', headers: headers(), body})
    ids.push((await answer.json()).id)
  }
  return ids
}"""
OVER = """async ids => {
  for (const id of ids) {
    for (;;) {
      const job = await (await fetch(`/web/v1/jobs/${id}?wait=30`)).json()
      if (!['queued', 'running'].includes(job.state)) break
    }
  }
}"""

OPENED = "folds => folds.forEach(one => one.click())"
BESIDE = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth).length"


def made(somebody: Person, count: int, label: str) -> list[str]:
    """Jobs that are over, with a label of their own."""
    ids: list[str] = somebody.page.evaluate(MANY, [count, label])
    somebody.page.evaluate(OVER, ids)
    return ids


@pytest.mark.variant("page")
def test_jobs_are_found_by_label_and_voice(visitor: Person, member: Cookies) -> None:
    """The label of a job leads from its page to all that have it; half of a label filters nothing."""
    visitor.enter(member, "/jobs")
    page, lines = visitor.page, visitor.page.locator(".lines.jobs > li")
    [found] = made(visitor, 1, "one&only")
    made(visitor, 1, "another")
    voice = visitor.ask("GET", "/web/v1/voices")[1]["data"][0]
    spoken = {
        "model": "fake/speech",
        "parameters": {"text": "Lend me a voice.", "voice_id": voice["voice_id"]},
    }
    page.evaluate(
        """body => fetch('/web/v1/jobs', {method: 'POST', body: JSON.stringify(body), headers:
          {'Content-Type': 'application/json', 'Idempotency-Key': crypto.randomUUID()}})""",
        spoken,
    )
    visitor.open(f"/jobs/{found}")
    page.get_by_role("link", name="chapter=one&only").click()
    expect(lines).to_have_count(1)
    expect(page.get_by_role("combobox", name="Label")).to_have_value("chapter=one&only")
    page.get_by_role("combobox", name="Label").fill("chapter")
    expect(lines.nth(2)).to_be_visible()
    page.get_by_role("combobox", name="Label").fill("")
    page.get_by_role("combobox", name="Voice").select_option(voice["voice_id"])
    expect(lines).to_have_count(1)

    expect(lines).to_contain_text("Lend me a voice.")


@pytest.mark.variant("page")
def test_many_jobs_are_saved_and_erased_at_once(visitor: Person, member: Cookies) -> None:
    """By keyboard: the archive has each result under its title, byte for byte."""
    page = visitor.enter(member, "/jobs")
    ids = made(visitor, 3, "many")
    visitor.open("/jobs?label=chapter%3Dmany")
    boxes = page.get_by_role("checkbox", name=re.compile("^Choose: many"))
    expect(boxes).to_have_count(3)
    page.get_by_label("Select all shown").press("Space")
    expect(page.get_by_text("Selected: 3")).to_be_visible()
    boxes.first.press("Space")
    with page.expect_download() as archive:
        page.get_by_role("button", name="Download", exact=True).press("Enter")
    with zipfile.ZipFile(io.BytesIO(Path(archive.value.path()).read_bytes())) as files:
        faults = files.testzip()
        saved = {name: files.read(name) for name in files.namelist()}
    jobs = [visitor.ask("GET", f"/web/v1/jobs/{one}")[1] for one in ids]
    contents = [
        page.request.get(f"{visitor.url}/web/v1/artifacts/{job['artifacts'][0]['id']}/content").body()
        for job in jobs[:2]
    ]
    refused = {"error": {"code": "job_not_finished", "message": "Not now.", "request_id": "req_1"}}
    page.route(f"**/jobs/{ids[0]}/content", lambda route: route.fulfill(status=409, json=refused), times=1)
    page.get_by_role("button", name="Erase the content").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Erase the content").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Not now.")
    expect(page.locator(".lines.jobs .erased")).to_have_count(1)
    page.get_by_label("Kind").select_option("speech")
    page.get_by_label("Kind").select_option("")
    expect(boxes).to_have_count(2)
    expect(page.get_by_text("Selected:")).to_have_count(0)
    states = [visitor.ask("GET", f"/web/v1/jobs/{one}")[1]["erased_at"] is not None for one in ids]

    assert faults is None
    assert {f"many {n} {ids[n][-8:]}.png": contents[n] for n in range(2)} == saved
    assert [False, True, False] == states


@pytest.mark.variant("page")
def test_a_result_that_cannot_be_had_keeps_no_other_from_being_saved(
    visitor: Person, member: Cookies
) -> None:
    """The archive has the others, and the page says what is wrong with the one."""
    page = visitor.enter(member, "/jobs")
    ids = made(visitor, 3, "gap")
    job = visitor.ask("GET", f"/web/v1/jobs/{ids[1]}")[1]
    gone = {"error": {"code": "erased", "message": "It is gone.", "request_id": "req_1"}}
    page.route(
        f"**/artifacts/{job['artifacts'][0]['id']}/content",
        lambda route: route.fulfill(status=410, json=gone),
    )
    visitor.open("/jobs?label=chapter%3Dgap")
    expect(page.get_by_role("checkbox", name=re.compile("^Choose: gap"))).to_have_count(3)
    page.get_by_label("Select all shown").check()
    with page.expect_download() as archive:
        page.get_by_role("button", name="Download", exact=True).click()
    with zipfile.ZipFile(io.BytesIO(Path(archive.value.path()).read_bytes())) as files:
        saved = files.namelist()

    expect(page.get_by_role("alert")).to_contain_text("The content was erased.")
    assert {f"gap {n} {ids[n][-8:]}.png" for n in (0, 2)} == set(saved)


@pytest.mark.variant("depth")
def test_of_hundreds_of_jobs_only_those_near_are_drawn(
    browser: Browser, fake_house: RunningService, member: Cookies
) -> None:
    """Thousands scroll like a hundred: each comes into sight once and in order, a chosen one stays chosen."""
    with person(browser, fake_house.url) as somebody:
        page = somebody.enter(member, "/jobs")
        ids = made(somebody, HUNDREDS, "hundreds")
        somebody.open("/jobs?label=chapter%3Dhundreds")
        rows = page.locator(".lines.jobs > li[data-block]")
        for _ in range(HUNDREDS):
            page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
            if page.get_by_text(f"Shown: {HUNDREDS}").count():
                break
            page.wait_for_timeout(100)
        expect(page.get_by_text(f"Shown: {HUNDREDS}")).to_have_count(1)
        expect(rows.first).not_to_have_attribute("data-block", "0")
        page.evaluate("window.scrollTo(0, 0)")
        expect(rows.first).to_have_attribute("data-block", "0")
        rows.first.get_by_role("checkbox").check()
        passed = page.evaluate(PASSED)

        assert [ids[::-1], True] == [passed["ids"], passed["most"] < HUNDREDS]
        page.evaluate("window.scrollTo(0, 0)")
        expect(rows.first.get_by_role("checkbox")).to_be_checked()
        assert [] == somebody.faults


@pytest.mark.variant("page")
def test_tables_fit_a_phone(browser: Browser, fake_house: RunningService, operator_cookie: Cookies) -> None:
    """Queue, statistics, ledger and usage at 390 pixels: nothing is beside the screen, in either language."""
    hidden = {}
    for language in ("en", "zh"):
        with person(browser, fake_house.url, width=390, language=language) as operator:
            operator.enter(operator_cookie, "/")
            [job] = made(operator, 1, "narrow")
            for path in ("/operator/queue", "/operator/statistics", "/usage", f"/jobs/{job}"):
                operator.open(path)
                operator.page.locator("main details:not([open]) > summary:visible").evaluate_all(OPENED)
                operator.page.locator(".scroll tbody tr").last.wait_for()
                operator.settle()
                hidden[path, language] = operator.page.evaluate(BESIDE)

            assert [] == operator.faults
    assert {} == {place: count for place, count in hidden.items() if count}
