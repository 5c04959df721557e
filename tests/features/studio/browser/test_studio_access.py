"""Everybody can use the studio: by screen reader, keyboard or input method, on a narrow screen."""

import pytest
from playwright.sync_api import Browser, expect

from features.studio.browser.browser import Cookies, Person, person
from servers.service import RunningService

PAGES = (
    "/", "/speech", "/voices", "/recognition", "/images", "/chat", "/jobs", "/keys", "/webhooks", "/usage",
    "/settings", "/operator/accounts", "/operator/models", "/operator/queue", "/operator/statistics",
    "/operator/log", "/operator/recovery", "/nowhere",
)  # fmt: skip
DOORS = ("/login", "/register", "/setup#token", "/invite#token")
WIDE = {"width": 1280, "height": 860}
NARROW = {"width": 360, "height": 700}
LANGUAGES = ("en", "zh")
THEMES: dict[str, list[str] | None] = {"light": None, "dark": ["color-contrast"]}
"""What axe looks for in each: all there is, and then the one thing that colours change."""
SETTLED = """async () => {
  for (let round = 0; round < 20; round++) {
    const fading = document.getAnimations().filter(one => one instanceof CSSTransition)
    if (fading.length === 0) return
    fading.forEach(one => one.finish())
    await new Promise(requestAnimationFrame)
  }
  throw new Error('colours do not come to rest')
}"""
"""Colours fade into each other when the theme changes, and what fades on a part that is not drawn never ends:
all are brought to their end, and those that this begins."""


@pytest.mark.variant("page")
def test_every_page_can_be_used_by_everybody(
    browser: Browser, fake_house: RunningService, operator_cookie: Cookies
) -> None:
    """On every page axe finds nothing serious or critical, and nothing is wider than a narrow screen."""
    found: dict[str, list[str]] = {}
    with person(browser, fake_house.url) as somebody:
        found |= {path: look(somebody, path) for path in DOORS}
        somebody.become(operator_cookie)
        jobs = _make_something(somebody)
        found |= {path: look(somebody, path) for path in (*PAGES, *(f"/jobs/{job}" for job in jobs))}

    assert {} == {path: faults for path, faults in found.items() if faults}
    assert [] == somebody.faults


def look(somebody: Person, path: str) -> list[str]:
    """What is wrong with a page in each language, wide, narrow and in each theme."""
    page = somebody.page
    somebody.open(path)
    somebody.settle()
    theme = page.locator(".looks select").last
    faults = []
    for one in LANGUAGES:
        somebody.speak(one)
        page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        width = page.evaluate("document.documentElement.scrollWidth")
        page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        if width > NARROW["width"]:
            faults.append(f"{one}: {width} pixels wide")
        for other, rules in THEMES.items():
            theme.select_option(other)
            page.evaluate(SETTLED)
            faults += [f"{one} {other}: {fault}" for fault in somebody.axe(rules)]
    return faults


def _make_something(somebody: Person) -> list[str]:
    """A key, a speech job and an image, which are over: their ids."""
    somebody.open("/")
    somebody.ask("POST", "/web/keys", {"name": "made", "models": None, "expires_at": None})
    jobs = (("fake/speech", {"text": "Hold it."}), ("fake/image", {"prompt": "a note"}))
    made = [somebody.submit(*job) for job in jobs]
    assert {"succeeded"} == {somebody.finish(job_id) for job_id in made}
    return made


@pytest.mark.variant("page")
def test_the_keyboard_reaches_everything(visitor: Person, member: Cookies) -> None:
    """Past the menu with one key, the form in order, and after a step the focus is at the new page."""
    page = visitor.enter(member, "/speech")
    page.locator("#text").wait_for()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert "Skip to the page" == page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert "text" == page.evaluate("document.activeElement.id")
    page.keyboard.type("Hold.")
    page.keyboard.press("Control+Enter")
    page.locator(".result .state").wait_for()
    page.get_by_role("link", name="Jobs", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Jobs").wait_for()

    assert "page" == page.evaluate("document.activeElement.id")


@pytest.mark.variant("page")
def test_keys_lead_everywhere(visitor: Person, member: Cookies) -> None:
    """`g` and a letter go to a page, Ctrl+K finds one by name, `?` shows all keys."""
    visitor.enter(member, "/jobs")
    page, heading = visitor.page, visitor.page.get_by_role("heading", level=1)
    page.keyboard.press("g")
    page.keyboard.press("k")
    expect(heading).to_have_text("API keys")
    page.get_by_label("Name", exact=True).press_sequentially("g s ?")
    expect(page.get_by_label("Name", exact=True)).to_have_value("g s ?")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Go to").press_sequentially("recog")
    choices = page.get_by_role("listbox", name="Go to").get_by_role("option")
    expect(choices).to_have_count(1)
    faults = visitor.axe()
    page.keyboard.press("Enter")
    expect(heading).to_have_text("Recognition")
    page.keyboard.press("?")
    page.get_by_role("switch", name="Shortcuts of single keys").uncheck()
    faults += visitor.axe()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("?")
    page.keyboard.press("Control+k")
    choices.filter(has_text="Chat").first.click()

    expect(heading).to_have_text("Chat")
    expect(page.locator(".keyboard")).to_have_count(0)
    assert [] == faults
