"""The client for JavaScript in a browser: on a page of another origin that the service's settings allow."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from features.studio.browser.browser import LAN_NAME, ROOT
from servers.callers import Caller, Operator
from servers.service import RunningService

DIST = ROOT / "packages" / "tenuto-js" / "dist"

pytestmark = [
    pytest.mark.variant("program"),
    pytest.mark.skipif(
        not (DIST / "index.js").exists(),
        reason="the client for JavaScript is not built; `make test-all` does that",
    ),
]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """A test prints nothing."""


@dataclass
class Site:
    """Pages of another origin than the service's, and the service."""

    port: int
    operator: Operator

    def origin(self, host: str) -> str:
        return f"http://{host}:{self.port}"


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A folder with the compiled modules and an empty page, and a service that allows its two names."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "dist").symlink_to(DIST)
    (folder / "index.html").write_text("<!doctype html><title>A page</title>")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origins = ", ".join(f"http://{host}:{server.server_port}" for host in ("127.0.0.1", LAN_NAME))
    variables = {"TENUTO_CORS_ORIGINS": origins, "TENUTO_REQUESTS_PER_SECOND": "0"}
    service = RunningService(folder.with_name("allowing") / "data", variables=variables)
    service.folder.parent.mkdir()
    service.start()
    operator = Operator(service)
    yield Site(server.server_port, operator)
    operator.close()
    service.stop()
    server.shutdown()


def opened(browser: Browser, site: Site, host: str) -> Page:
    """A page without cookies on which nothing has run."""
    page = browser.new_context().new_page()
    page.goto(site.origin(host) + "/index.html")
    return page


def client(site: Site, caller: Caller, body: str) -> str:
    """A script that begins with the client of that account."""
    return f"""async () => {{
      const {{ Tenuto, WebStore, IdempotencyConflict }} = await import('/dist/index.js')
      const client = new Tenuto({{
        baseUrl: '{site.operator.service.url}', apiKey: '{caller.key}', journal: new WebStore(),
      }})
      {body}
    }}"""


FLOWS = """
const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
const job = await client.speech.create('Hold the note.', { model: 'fake/speech', lang: 'en', stream: true })
const live = []
for await (const event of job.live()) live.push(event.state)
let segments = 0
for await (const { content } of job.segments()) segments += content.length > 44 ? 1 : 0
const bytes = await job.read()
const parts = []
const reader = (await job.stream()).getReader()
for (let part = await reader.read(); !part.done; part = await reader.read()) parts.push(part.value)
const image = await (await client.images.create('A cat.', { model: 'fake/image' })).blob()
let chat = ''
const messages = [{ role: 'user', content: 'two words' }]
for await (const piece of client.chat.completions.stream({ messages })) chat += piece.content
const conflict = await (async () => {
  await client.speech.create('A', { model: 'fake/speech' }, { idempotencyKey: 'mine' })
  await client.speech.create('B', { model: 'fake/speech' }, { idempotencyKey: 'mine' })
})().catch((error) => error instanceof IdempotencyConflict && error.code)
return {
  id: job.id, live: live.at(-1), segments, size: bytes.length, hex: hex(bytes),
  streamed: hex(new Uint8Array(await new Blob(parts).arrayBuffer())) === hex(bytes),
  image: image.type, chat, conflict,
  isSecure: window.isSecureContext,
}
"""


@pytest.mark.parametrize(("host", "is_secure"), [("127.0.0.1", True), (LAN_NAME, False)])
def test_every_flow_works_on_a_page_of_another_origin(
    host: str, is_secure: bool, browser: Browser, site: Site
) -> None:
    """Speech, its preview and events, an image and a chat; also over plain HTTP, without Web Crypto (P3)."""
    caller = site.operator.caller(credit="100")
    page = opened(browser, site, host)
    report = page.evaluate(client(site, caller, FLOWS))
    page.context.close()
    [artifact] = caller.read(report["id"])["artifacts"]
    digest = hashlib.sha256(bytes.fromhex(report.pop("hex"))).hexdigest()

    assert (artifact["sha256"], artifact["size_bytes"]) == (digest, report["size"])
    assert report["segments"] > 0 and report["chat"]
    assert {
        "live": "succeeded",
        "streamed": True,
        "image": "image/png",
        "conflict": "idempotency_conflict",
        "isSecure": is_secure,
    } == {name: report[name] for name in ("live", "streamed", "image", "conflict", "isSecure")}


@pytest.mark.parametrize("host", ["127.0.0.1", LAN_NAME])
def test_a_page_that_is_left_while_its_job_runs_resumes_it(host: str, browser: Browser, site: Site) -> None:
    """The journal in the page's storage outlives a reload: one job, one charge, the same bytes (P2, P9)."""
    caller = site.operator.caller(credit="100")
    page = opened(browser, site, host)
    text = "[fake:sleep=1] Hold the note."
    submit = f"return (await client.speech.create('{text}', {{ model: 'fake/speech' }})).id"
    resume = """
      const jobs = []
      for await (const job of client.resume()) jobs.push([job.id, (await job.read()).length])
      return [jobs, Object.keys(localStorage)]
    """
    job_id = page.evaluate(client(site, caller, submit))
    page.reload()
    jobs, left = page.evaluate(client(site, caller, resume))
    page.context.close()
    ledger = caller.get("/v1/account/ledger").json()["data"]
    [artifact] = caller.read(job_id)["artifacts"]

    assert [[job_id, artifact["size_bytes"]]] == jobs
    assert [] == left
    assert 1 == len(caller.get("/v1/jobs").json()["data"])
    assert ["hold", "settle"] == sorted(entry["type"] for entry in ledger if entry["job_id"] == job_id)


def test_an_answer_that_was_held_back_is_not_waited_for_again(browser: Browser, site: Site) -> None:
    """The service tells pages of other origins, too, that it has held its answer."""
    caller = site.operator.caller(credit="100")
    page = opened(browser, site, "127.0.0.1")
    waits = """
      const slept = []
      const pause = (ms) => new Promise((done) => setTimeout(done, ms))
      const sleep = (ms) => (slept.push(ms), pause(ms))
      const clock = { now: () => Date.now(), monotonic: () => performance.now(), sleep }
      const timed = new Tenuto({ baseUrl: client.baseUrl, apiKey: KEY, clock })
      const job = await timed.speech.create('[fake:sleep=4] Hold.', { model: 'fake/speech' })
      await job.wait()
      return slept.map((ms) => Math.round(Math.max(0, ms) / 1000))
    """.replace("KEY", f"'{caller.key}'")
    slept = page.evaluate(client(site, caller, waits))
    page.context.close()

    assert [0] * (len(slept) - 1) == slept[1:]
