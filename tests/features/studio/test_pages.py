"""The studio's files: one page for every path, immutable assets, codings, headers, and nothing else."""

import gzip
import os
import re
from pathlib import Path

import pytest

from features.studio.browsers import Studio, error
from features.studio.conftest import Open
from tenuto.api.app import pattern
from tenuto.features.studio.app import PAGES

pytestmark = pytest.mark.variant("database", only="postgresql")

STUDIO = Path(__file__).parents[3] / "studio"
INDEX = "<!doctype html><script src=/assets/app-1a2b.js></script>"
SCRIPT = "console.log('studio');" * 50
POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'; object-src 'none'"
)


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """What a build leaves, and a file beside it that is nobody's business."""
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text(INDEX)
    (static / "favicon.svg").write_text("<svg/>")
    script = static / "assets" / "app-1a2b.js"
    script.write_text(SCRIPT)
    script.with_name("app-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT.encode()))
    script.with_name("app-1a2b.js.br").write_bytes(b"as brotli has it")
    (tmp_path / "secret.txt").write_text("secret")
    return static


@pytest.fixture
def built(open_studio: Open, static: Path) -> Studio:
    """A studio that was built."""
    return open_studio(static=static)


def test_every_page_is_the_one_page(built: Studio) -> None:
    """With headers that let it load and call nothing but its own host, and nobody frame it."""
    browser = built.browser()
    answers = [browser.get(path.replace("{", "").replace("}", "")) for path in PAGES]
    deep = [browser.get("/jobs/job_01/segments", Accept="text/html"), browser.get("/a/b", Accept="text/html")]

    assert {(200, INDEX)} == {(answer.status_code, answer.text) for answer in answers}
    assert {(404, INDEX)} == {(answer.status_code, answer.text) for answer in deep}
    for answer in [*answers, *deep]:
        assert POLICY == answer.headers["content-security-policy"]
        assert "text/html; charset=utf-8" == answer.headers["content-type"]
        assert ("nosniff", "DENY") == (
            answer.headers["x-content-type-options"],
            answer.headers["x-frame-options"],
        )
        assert ("same-origin", "same-origin") == (
            answer.headers["referrer-policy"],
            answer.headers["cross-origin-opener-policy"],
        )
        assert answer.headers["permissions-policy"].startswith("microphone=(self), camera=()")
        assert "no-cache" == answer.headers["cache-control"]
        assert "set-cookie" not in answer.headers


def test_every_path_of_the_studio_is_served() -> None:
    """What `pages.ts` lists is answered with 200, not as a page that is missing."""
    listed = re.findall(r"\bpath: '([^']+)'", (STUDIO / "src" / "lib" / "pages.ts").read_text("utf-8"))
    served = [pattern(path) for path in PAGES]
    unserved = [path for path in listed if not any(one.match(path.replace("*", "x")) for one in served)]

    assert 15 < len(listed)
    assert [] == unserved


def test_assets_are_kept_for_ever_in_the_best_coding(built: Studio) -> None:
    """Brotli, else gzip, else the file; a weight of 0 is a refusal; each coding has a tag of its own."""
    browser, path = built.browser(), "/assets/app-1a2b.js"
    asked = ("br, gzip", "gzip, br", "gzip", "identity", "br;q=0, gzip;q=0.5", "")
    answers = [browser.get(path, **{"Accept-Encoding": each}) for each in asked]
    codings = [answer.headers.get("content-encoding") for answer in answers[2:]]
    raw = [raw_asset(built, path, each) for each in asked[:2]]
    tags = {answer.headers["etag"] for answer in answers[2:]}

    assert ["gzip", None, "gzip", None] == codings
    assert {SCRIPT} == {answer.text for answer in answers[2:]}
    assert [("br", b"as brotli has it")] * 2 == raw
    assert {"public, max-age=31536000, immutable"} == {each.headers["cache-control"] for each in answers}
    assert {"accept-encoding"} == {each.headers["vary"] for each in answers}
    assert {"text/javascript; charset=utf-8"} == {each.headers["content-type"] for each in answers}
    assert 2 == len(tags)
    known = {"If-None-Match": answers[2].headers["etag"], "Accept-Encoding": "gzip"}
    assert (304, b"") == (browser.get(path, **known).status_code, browser.get(path, **known).content)
    assert "image/svg+xml; charset=utf-8" == browser.get("/favicon.svg").headers["content-type"]
    assert b"" == browser.request("HEAD", path).content


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets//etc/passwd",
        "//etc/passwd",
        "/assets/app-1a2b.js%00.css",
        "/assets/app-1a2b.js.br",
        "/assets/",
        "/index.html",
        "/assets/app-9.js",
        "/static/index.html",
    ],
)
def test_nothing_else_is_served(built: Studio, path: str) -> None:
    """No path leads out of the build; what is not in it is not found, as JSON to who asks for no page."""
    answer = built.browser().get(path)

    assert (404, "not_found") == error(answer)
    assert "secret" not in answer.text


def test_pages_are_read_only(built: Studio) -> None:
    """405 that names what there is."""
    answer = built.browser().post("/speech", {})

    assert (405, "method_not_allowed") == error(answer)
    assert "GET, HEAD" == answer.headers["allow"]


def test_a_new_build_is_served_without_a_restart(built: Studio, static: Path) -> None:
    """And a build that is gone is told."""
    browser = built.browser()
    before = browser.get("/").text
    (static / "index.html").write_text("new")
    os.utime(static / "index.html", (1, 1))
    after = browser.get("/").text
    (static / "index.html").unlink()

    assert (INDEX, "new") == (before, after)
    assert "make setup" in browser.get("/").text


def test_a_studio_that_was_not_built_says_how(studio: Studio) -> None:
    """In both languages, on every page; the rest of the service works."""
    browser = studio.browser()
    page = browser.get("/keys")

    assert (200, POLICY) == (page.status_code, page.headers["content-security-policy"])
    assert "make setup" in page.text
    assert "网页" in page.text
    assert 200 == browser.get("/web/session").status_code
    assert (404, "not_found") == error(browser.get("/assets/app.js"))
    assert (404, "not_found") == error(browser.get("/v1/nothing", Accept="text/html"))


def raw_asset(studio: Studio, path: str, accept: str) -> tuple[str, bytes]:
    """The coding and the very bytes: a client would decode them."""
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"accept-encoding", accept.encode())],
    }
    studio.loop.run_until_complete(studio.app(scope, None, send))
    headers = dict(sent[0]["headers"])  # type: ignore[call-overload]
    body = sent[1]["body"]
    assert isinstance(body, bytes)
    return headers[b"content-encoding"].decode(), body
