"""Everybody can use the studio: by screen reader, keyboard or input method, on a narrow screen."""

import pytest
from playwright.sync_api import Browser, Route, expect

from features.studio.browser.browser import Cookies, Person, person
from features.studio.browser.scenes import SUBMIT
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
    made = [somebody.page.evaluate(SUBMIT, job) for job in jobs]
    for job_id in made:
        state = somebody.ask("GET", f"/web/v1/jobs/{job_id}?wait=30")[1]["state"]
        while state in ("queued", "running"):
            state = somebody.ask("GET", f"/web/v1/jobs/{job_id}?wait=30")[1]["state"]
        assert "succeeded" == state
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


@pytest.mark.variant("page")
def test_a_field_says_what_it_lacks(visitor: Person) -> None:
    """In the language of the page and below the field, which gets the focus; the password can be shown."""
    visitor.open("/setup#token")
    page = visitor.page
    name, password = page.get_by_label("Account name"), page.get_by_label("Password")
    page.get_by_role("button", name="Create account").click()
    expect(name).to_be_focused()
    expect(page.get_by_text("Fill this in.")).to_have_count(2)
    name.fill("Clara")
    password.fill("short")
    page.get_by_role("button", name="Create account").click()
    expect(page.get_by_text("At least 10 characters are needed; there are 5.")).to_be_visible()
    page.get_by_role("button", name="Show").click()

    expect(password).to_have_attribute("type", "text")
    expect(password).to_have_value("short")
    expect(page.get_by_text("Fill this in.")).to_have_count(0)


@pytest.mark.variant("page")
def test_the_narrow_menu_folds_by_escape(
    browser: Browser, fake_house: RunningService, member: Cookies
) -> None:
    """And the focus is where it was opened."""
    with person(browser, fake_house.url, width=390) as somebody:
        somebody.enter(member, "/")
        button = somebody.page.get_by_role("button", name="Menu")
        button.press("Enter")
        somebody.page.get_by_role("link", name="Jobs", exact=True).focus()
        somebody.page.keyboard.press("Escape")

        expect(button).to_have_attribute("aria-expanded", "false")
        expect(button).to_be_focused()


@pytest.mark.variant("page")
def test_the_language_chosen_last_wins(visitor: Person, member: Cookies) -> None:
    """Also when the texts of the one chosen before it arrive later."""
    visitor.enter(member, "/jobs")
    late: list[Route] = []

    def hold(route: Route) -> None:
        late.append(route)

    visitor.page.route("**/zh-*.js", hold)
    menu = visitor.page.locator(".looks select").first
    with visitor.page.expect_request("**/zh-*.js"):
        menu.select_option("zh")
    menu.select_option("en")
    with visitor.page.expect_response("**/zh-*.js"):
        late[0].continue_()
    visitor.settle()

    expect(visitor.page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert "en" == visitor.page.evaluate("document.documentElement.lang")
