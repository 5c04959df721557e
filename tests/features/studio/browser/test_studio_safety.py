"""What another site, a hostile name or a stolen glance could do with the studio's pages: nothing."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import TimeoutError as NotInTime
from playwright.sync_api import expect

from features.studio.browser.browser import Cookies, Person
from servers.service import RunningService

HOSTILE = "<img src=x onerror=\"document.title='stolen'\"><script>document.title='stolen'</script>"


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, *args: object) -> None:
        return


@pytest.fixture
def other_site(tmp_path: Path, fake_house: RunningService) -> Iterator[str]:
    """A page of another origin that frames the studio, posts a form to it and fetches from it."""
    (tmp_path / "index.html").write_text(f"""<!doctype html><title>other</title>
      <iframe src="{fake_house.url}/keys"></iframe>
      <form method="post" action="{fake_house.url}/web/logout"><button>Win a prize</button></form>""")
    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_what_people_write_is_never_markup(visitor: Person, member: Cookies) -> None:
    """Names and texts of any kind are shown as they are: nothing of them runs (R206)."""
    visitor.enter(member, "/keys")
    visitor.ask("POST", "/web/keys", {"name": HOSTILE[:80], "models": None, "expires_at": None})
    visitor.open("/keys")
    expect(visitor.page.locator("tbody td").first).to_have_text(HOSTILE[:80])
    visitor.open("/speech")
    visitor.page.get_by_label("The text to speak").fill(HOSTILE)
    visitor.page.get_by_role("button", name="Generate").click()
    visitor.page.locator(".result .state.succeeded").wait_for()
    visitor.page.get_by_role("link", name="Open its page").click()
    expect(visitor.page.locator("pre code")).to_contain_text("onerror")

    assert "stolen" != visitor.page.title()
    assert 0 == visitor.page.locator("img[src=x]").count()


def test_an_address_cannot_lead_astray(visitor: Person) -> None:
    """After logging in one is at a page of the studio, whatever the address asked for."""
    visitor.register("astray")
    visitor.ask("POST", "/web/logout")
    for wanted in (
        "//example.org/",
        "https://example.org/",
        "/\\example.org",
        "javascript:document.title='stolen'",
    ):
        visitor.open(f"/login?next={wanted}")
        visitor.page.get_by_label("Account name").fill("astray")
        visitor.page.get_by_label("Password").fill("a password for tests")
        visitor.page.get_by_role("button", name="Log in").click()
        visitor.page.get_by_role("heading", name="Hello, astray").wait_for()

        assert visitor.page.url.startswith(visitor.url)
        visitor.ask("POST", "/web/logout")


def test_another_site_can_neither_frame_nor_act(visitor: Person, member: Cookies, other_site: str) -> None:
    """A form of another site changes nothing, its frame stays empty, its scripts read nothing."""
    visitor.become(member)
    page = visitor.page
    page.goto(other_site)
    page.wait_for_timeout(500)
    framed = page.frames[1].url
    read = page.evaluate(
        "url => fetch(url + '/web/session', {credentials: 'include'}).then(a => a.text(), e => 'refused')",
        visitor.url,
    )
    page.get_by_role("button", name="Win a prize").click()
    page.wait_for_load_state()
    visitor.open("/")
    expect(page.get_by_role("heading", name="Hello, member")).to_be_visible()

    assert framed.startswith("chrome-error://")
    assert "refused" == read
    visitor.faults = [fault for fault in visitor.faults if not _is_expected(fault, other_site)]


def _is_expected(fault: str, other_site: str) -> bool:
    """The other site's own page, and what the browser says when it stops it."""
    return other_site in fault or "frame-ancestors" in fault or "CORS" in fault


def test_scripts_and_styles_that_are_written_into_a_page_do_nothing(visitor: Person) -> None:
    """The policy holds: inline script, inline style and eval are stopped, and the pages need none of them."""
    visitor.open("/login")
    done = visitor.page.evaluate("""() => {
      const script = document.createElement('script')
      script.textContent = 'window.ran = true'
      document.body.append(script)
      const text = document.createElement('p')
      text.innerHTML = '<b style="color: rgb(1, 2, 3)">x</b>'
      document.body.append(text)
      // What Playwright itself evaluates is exempt, a timer's text is not.
      setTimeout('window.evaluated = true', 0)
      return new Promise(tell => setTimeout(() => tell([
        window.ran === true,
        getComputedStyle(text.firstChild).color === 'rgb(1, 2, 3)',
        window.evaluated === true,
      ]), 50))
    }""")
    stopped = [fault for fault in visitor.faults if "Content Security Policy" in fault]
    visitor.faults = [fault for fault in visitor.faults if fault not in stopped]

    assert [False, False, False] == done
    assert 3 == len(stopped)


def test_an_account_that_is_no_operator_finds_no_operators_pages(visitor: Person, member: Cookies) -> None:
    """They look like pages that are not there."""
    visitor.enter(member, "/operator/accounts")
    expect(visitor.page.get_by_role("heading", name="Nothing is here")).to_be_visible()

    assert 0 == visitor.page.get_by_role("link", name="Accounts and credit").count()
    assert 403 == visitor.ask("GET", "/web/operator/accounts")[0]


def test_a_session_that_ended_asks_for_the_password_and_comes_back(visitor: Person) -> None:
    """Nothing of the account stays on the page."""
    visitor.enter("tired", "/speech")
    visitor.page.get_by_label("The text to speak").fill("Hold this.")
    visitor.ask("POST", "/web/logout")
    with suppress(NotInTime):  # The page asks now and then, and may find out before.
        visitor.page.get_by_role("link", name="Jobs", exact=True).click(timeout=3_000)
    visitor.page.get_by_text("Your session has expired.").wait_for()
    [place] = parse_qs(urlsplit(visitor.page.url).query)["next"]
    visitor.page.get_by_label("Account name").fill("tired")
    visitor.page.get_by_label("Password").fill("a password for tests")
    visitor.page.get_by_role("button", name="Log in").click()

    expect(visitor.page).to_have_url(f"{visitor.url}{place}")
    visitor.page.get_by_role("link", name="Speech", exact=True).click()
    assert place in ("/jobs", "/speech")
    expect(visitor.page.get_by_label("The text to speak")).to_have_value("Hold this.")
    visitor.page.reload()
    expect(visitor.page.get_by_label("The text to speak")).to_have_value("Hold this.")


def test_what_a_model_writes_is_never_markup(visitor: Person, member: Cookies) -> None:
    """Its Markdown and formulas are shown."""
    page = visitor.enter(member, "/chat")
    good, bad = "[good](https://example.org/)", "[bad](javascript:document.title='stolen')"
    picture = "![picture](https://example.org/p.png)"
    page.get_by_label("Message").fill(f"**loud** $x^2$ {good} {bad} {picture} {HOSTILE}")
    # Until the page knows the models, Enter does nothing and the button is disabled.
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.get_by_label("Message").press("Enter")
    words = page.locator(".turn.assistant .words")
    expect(page.locator(".turn.assistant footer")).to_be_visible()
    expect(words.locator("strong")).to_have_text("loud")
    expect(words.locator("math")).to_be_visible()
    links = words.locator("a").evaluate_all("links => links.map(one => [one.href, one.rel, one.target])")

    assert [
        ["https://example.org/", "noopener noreferrer nofollow", "_blank"],
        ["https://example.org/p.png", "noopener noreferrer nofollow", "_blank"],
    ] == links
    assert "stolen" != page.title()
    assert 0 == words.locator("img, script").count()
    expect(words).to_contain_text("<img src=x onerror=")
