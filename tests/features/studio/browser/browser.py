"""A browser as a person has it, driven by Playwright: Chromium with a microphone that always hums.

What a page must never do is noted while it is used: errors of its scripts, violations of its policy, requests
to another host.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import count
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from playwright.sync_api import Browser, Cookie, Page, Playwright

ROOT = Path(__file__).parents[4]
AXE = ROOT / "studio" / "node_modules" / "axe-core" / "axe.min.js"
BUILT = ROOT / "packages" / "tenuto" / "src" / "tenuto" / "features" / "studio" / "static" / "index.html"
PACKAGED = ROOT / "build" / "browser"
PASSWORD = "a password for tests"
WAIT_MS = 120_000
SETTLED_MS = 500
LAN_NAME = "lan.test"
"""This machine under a name that browsers take for another one, so that plain HTTP to it is not secure."""
BENCHMARKING = ip_network("198.18.0.0/15")
"""Addresses reserved for benchmarks (RFC 2544)."""
_visitors = count(1)
ARGUMENTS = [
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--disable-background-networking",
    "--disable-component-update",
    f"--host-resolver-rules=MAP {LAN_NAME} 127.0.0.1",
]


def why_not() -> str | None:
    """Why no browser can be driven here; None if one can."""
    if packaged() is None and installed() is None:
        return "no browser: `make test` unpacks one on x86-64; elsewhere install Debian's package chromium"
    if not BUILT.exists():
        return "the studio is not built: run `make setup` with Node.js 20.19 or newer installed"
    return None


def packaged() -> Path | None:
    """The browser that `make test` unpacked, the same on every machine; it brings no Chinese font."""
    return PACKAGED / "chromium" if (PACKAGED / "chromium").exists() else None


def installed() -> Path | None:
    """The system's browser, by the names that systems give it."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((Path(path) for name in names if (path := shutil.which(name))), None)


def launch(playwright: Playwright, *, prefer_installed: bool = False) -> Browser:
    """The browser; root cannot have its sandbox, nor can the packaged one, whose helper is not setuid."""
    choices = (installed(), packaged()) if prefer_installed else (packaged(), installed())
    path = next(choice for choice in choices if choice is not None)
    environment: dict[str, str | float | bool] = dict(os.environ)
    if path == packaged():
        environment |= {
            "LD_LIBRARY_PATH": str(PACKAGED / "lib"),
            "FONTCONFIG_FILE": str(PACKAGED / "fonts.conf"),
        }
    sandbox = [] if os.getuid() != 0 and path == installed() else ["--no-sandbox"]
    return playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *sandbox], env=environment)


Cookies = list[Cookie]


@dataclass
class Person:
    """Somebody at a page of the studio, and everything bad that the page did meanwhile."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Requests that failed, and why; pytest prints them when a test fails."""
    _asking: set[Any] = field(default_factory=set)
    """The page's requests that are not answered yet."""

    def watch(self) -> None:
        """Note what a page must never do. A 4xx that a script asked for is none of it."""
        self.page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        self.page.on("console", self._hear)
        self.page.on("request", self._see)
        self.page.on("requestfinished", self._forget)
        self.page.on("requestfailed", self._lose)

    def _hear(self, message: Any) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.faults.append(f"console: {message.text}")

    def _see(self, request: Any) -> None:
        if "/changes.worker-" not in request.url:  # Of the worker, whose answers no page sees.
            self._asking.add(request)
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.faults.append(f"another host: {request.url}")

    def _lose(self, request: Any) -> None:
        self._forget(request)
        self.lost.append(f"{request.url}: {request.failure}")

    def _forget(self, request: Any) -> None:
        self._asking.discard(request)

    def open(self, path: str) -> None:
        """Go to a page and wait until it has its head."""
        self.page.goto(self.url + path)
        self.page.wait_for_selector("main h1, .door h1")

    def enter(self, who: Cookies | str, path: str) -> Page:
        """Be whoever has this session, or somebody new of this name, and go to a page."""
        if isinstance(who, str):
            self.register(who)
        else:
            self.become(who)
        self.open(path)
        return self.page

    def settle(self) -> None:
        """Wait until the page has asked for nothing for half a second. Its stream of events, which has no
        end, belongs to a worker and does not count; an idle network, as browsers define it, never comes.
        """
        until, quiet_ms = time.monotonic() + WAIT_MS / 1000, 0
        while quiet_ms < SETTLED_MS:
            assert time.monotonic() < until, [request.url for request in self._asking]
            self.page.wait_for_timeout(50)
            quiet_ms = 0 if self._asking else quiet_ms + 50

    def speak(self, language: str) -> None:
        """Choose the language of the pages ("en" or "zh") and wait until its texts are loaded and shown."""
        self.page.locator(".looks select").first.select_option(language)
        self.page.wait_for_function(_SPEAKS, arg=language)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """A request of the page's own, as its scripts send them."""
        return self.page.evaluate(_ASK, [method, path, None if body is None else json.dumps(body), headers])

    def register(self, name: str) -> None:
        """Make an account by request and be signed in: from an address of its own, as one address may make
        only a few, if the service trusts loopback to forward it.
        """
        self.open("/login")
        address = {"X-Forwarded-For": str(BENCHMARKING[next(_visitors)])}
        account = {"name": name, "password": PASSWORD}
        status, answer = self.ask("POST", "/web/register", account, address)
        assert status == 201, answer

    def set_up(self, link: str) -> None:
        """Be the operator, by the link that the service printed."""
        self.open(link)
        self.page.get_by_label("Account name").fill("operator")
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Create account").click()
        self.page.get_by_role("heading", name="Hello, operator").wait_for()

    def submit(self, model: str, parameters: dict[str, Any], **metadata: str) -> str:
        """A job as the pages submit it; its id."""
        body = {"model": model, "parameters": parameters, "metadata": metadata}
        status, answer = self.ask("POST", "/web/v1/jobs", body, {"Idempotency-Key": str(uuid4())})
        assert status == 202, answer
        job_id: str = answer["id"]
        return job_id

    def finish(self, job_id: str) -> str:
        """Wait until a job is over; its state."""
        while (state := self.ask("GET", f"/web/v1/jobs/{job_id}?wait=30")[1]["state"]) in (
            "queued",
            "running",
        ):
            pass
        found: str = state
        return found

    def become(self, cookies: Cookies) -> None:
        """Be whoever has this session."""
        self.page.context.add_cookies([cast(Any, cookie) for cookie in cookies])

    def axe(self, rules: list[str] | None = None) -> list[str]:
        """What somebody could not use here, of the serious and critical kinds: rule and place."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text("utf-8"))
        options = {"resultTypes": ["violations"]} | ({} if rules is None else {"runOnly": rules})
        found = self.page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{one['impact']} {one['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


_SPEAKS = "language => document.documentElement.lang.startsWith(language)"

_ASK = """async ([method, path, body, more]) => {
  const headers = {...(body === null ? {} : {'Content-Type': 'application/json'}), ...more}
  const answer = await fetch(path, {method, body: body ?? undefined, headers})
  const text = await answer.text()
  try { return [answer.status, JSON.parse(text)] } catch { return [answer.status, text] }
}"""


@contextmanager
def person(
    browser: Browser,
    url: str,
    *,
    language: str = "en",
    theme: str = "light",
    width: int = 1280,
    **options: Any,
) -> Iterator[Person]:
    """A new visitor with a language and a theme; an empty browser each."""
    context = browser.new_context(
        viewport={"width": width, "height": 860},
        locale="zh-CN" if language == "zh" else "en-GB",
        color_scheme="dark" if theme == "dark" else "light",
        permissions=["microphone", "clipboard-read", "clipboard-write"],
        **options,
    )
    context.set_default_timeout(WAIT_MS)
    visitor = Person(context.new_page(), url)
    visitor.watch()
    yield visitor
    context.close()
