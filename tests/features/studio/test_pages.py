"""What browsers load: the studio's one page, its assets and the API reference, also below a path."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import openapi_json

from features.studio.browsers import PASSWORD, Studio, error
from features.studio.conftest import Open
from tenuto.api.app import pattern
from tenuto.features.studio.app import PAGES, ROUTES
from tenuto.features.studio.pages import REFERENCE

pytestmark = pytest.mark.variant("database", only="postgresql")

INDEX = '<!doctype html><html lang="zh"><script src="/assets/app-1a2b.js"></script></html>'
PLACED = (
    '<!doctype html><html data-base="/a/tenuto" lang="zh">'
    '<script src="/a/tenuto/assets/app-1a2b.js"></script></html>'
)
DOCUMENT = openapi_json.DOCUMENT
WEB = DOCUMENT.parent / "docs" / "web.md"
MOST_BYTES = 50 * 1024
"""Of all that the page loads, compressed."""
FILES = {
    "docs.css": "text/css; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "elements.js": "text/javascript; charset=utf-8",
    "mark.svg": "image/svg+xml; charset=utf-8",
    "messages.js": "text/javascript; charset=utf-8",
    "schema.js": "text/javascript; charset=utf-8",
    "try.js": "text/javascript; charset=utf-8",
}
STUDIO = Path(__file__).parents[3] / "studio"
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
    codings = [answer.headers.get("content-encoding") for answer in answers]
    lengths = {answer.headers["content-length"] for answer in answers[:2]}
    tags = {answer.headers["etag"] for answer in answers[2:]}

    assert ["br", "br", "gzip", None, "gzip", None] == codings
    assert {SCRIPT} == {answer.text for answer in answers[2:]}
    assert {str(len(b"as brotli has it"))} == lengths
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


@pytest.fixture
def placed(open_studio: Open, static: Path) -> Studio:
    """A built studio below /a/tenuto where everybody may register."""
    (static / "index.html.br").write_bytes(b"the page at the root")
    return open_studio(registration="open", base_path="/a/tenuto", static=static)


def test_the_page_names_its_files_below_the_prefix(placed: Studio) -> None:
    """In every coding; the page is the same however a proxy asks for it."""
    browser = placed.browser()
    pages = [browser.get(path) for path in ("/a/tenuto", "/a/tenuto/", "/a/tenuto/jobs/x", "/jobs/x")]
    packed = browser.get("/a/tenuto/", **{"Accept-Encoding": "br, gzip"})
    files = [browser.get(path).text for path in ("/a/tenuto/assets/app-1a2b.js", "/assets/app-1a2b.js")]

    assert {PLACED} == {page.text for page in pages}
    assert ("gzip", PLACED) == (packed.headers["content-encoding"], packed.text)
    assert [SCRIPT, SCRIPT] == files


def test_places_that_answers_name_are_below_the_prefix(placed: Studio) -> None:
    """The API's own, and those under /web; a client that follows Location finds its job."""
    placed.open_lane()
    person = placed.person("李雷")
    answer = person.post(
        "/a/tenuto/web/v1/jobs",
        {"model": "fake/speech", "parameters": {"text": "Hold the note."}},
        **{"Idempotency-Key": "one"},
    )
    place = answer.headers["location"]

    assert f"/a/tenuto/web/v1/jobs/{answer.json()['id']}" == place
    assert answer.json()["id"] == person.get(place).json()["id"]


@pytest.mark.parametrize(
    ("https", "cookie"), [(False, "tenuto_session="), (True, "__Secure-tenuto_session=")]
)
def test_a_session_is_sent_below_the_prefix_alone(placed: Studio, https: bool, cookie: str) -> None:
    """What else is on the host does not get the cookie; browsers refuse `__Host-` with a path."""
    placed.person("韩梅梅")
    browser = placed.browser(https=https)
    answer = browser.post("/a/tenuto/web/login", {"name": "韩梅梅", "password": PASSWORD})
    written = answer.headers["set-cookie"]
    known = browser.get("/a/tenuto/web/session").json()["signed_in"]
    left = browser.post("/a/tenuto/web/logout").headers["set-cookie"]

    assert written.startswith(cookie)
    assert ("; Path=/a/tenuto; " in written, "; Secure" in written) == (True, https)
    assert known
    assert left.startswith(f"{cookie}; Path=/a/tenuto; Max-Age=0")


def test_other_paths_of_the_host_are_not_ours(placed: Studio) -> None:
    """Health is asked for at the root, too, where probes know of no prefix."""
    browser = placed.browser()
    paths = ("/a/tenuto/livez", "/livez", "/a/tenutos/livez", "/a/livez", "/a/tenuto/a/tenuto/livez")

    assert [200, 200, 404, 404, 404] == [browser.get(path).status_code for path in paths]


def ours(server: str) -> Any:
    """The document as a service at this address hands it over."""
    return yaml.safe_load(DOCUMENT.read_text("utf-8")) | {"servers": [{"url": server}]}


def test_the_written_document_is_the_one_that_is_served() -> None:
    """`python scripts/openapi_json.py` was run after the last change of openapi.yaml."""
    assert openapi_json.text() == (REFERENCE / "openapi.json").read_text("utf-8")


def test_the_reference_needs_no_login_and_no_build(studio: Studio) -> None:
    """The page, what it loads and the document, under the policy of all pages; read only; small."""
    browser = studio.browser()
    page = browser.get("/docs")
    files = {name: browser.get(f"/docs/{name}") for name in FILES}
    document, notation = browser.get("/openapi.json"), browser.get("/openapi.yaml")
    loaded = [page, document, *files.values()]
    size = sum(len(gzip.compress(each.content, mtime=0)) for each in loaded)
    print(f"{size} bytes in {len(loaded)} files")

    assert {200} == {each.status_code for each in (*loaded, notation)}
    assert "text/html; charset=utf-8" == page.headers["content-type"]
    assert FILES == {name: each.headers["content-type"] for name, each in files.items()}
    assert ("application/json", "application/yaml") == (
        document.headers["content-type"],
        notation.headers["content-type"],
    )
    assert {POLICY} == {each.headers["content-security-policy"] for each in loaded}
    assert {"no-cache"} == {each.headers["cache-control"] for each in loaded}
    assert ours("/") == document.json() == yaml.safe_load(notation.text)
    assert size <= MOST_BYTES
    assert f"loads at most {MOST_BYTES // 1024} KiB" in WEB.read_text("utf-8")
    assert 405 == browser.post("/docs", {}).status_code


def test_below_a_path_the_reference_names_that_path(open_studio: Open) -> None:
    """The document names the path as its server; the page names its files relatively."""
    browser = open_studio(base_path="/a/tenuto").browser()
    page = browser.get("/a/tenuto/docs").text
    names = [each.split('"')[0] for name in ("src=", "href=") for each in page.split(f'{name}"')[1:]]

    assert ours("/a/tenuto") == browser.get("/a/tenuto/openapi.json").json()
    assert browser.get("/docs").text == page
    assert [] == [name for name in names if name.startswith("/")]


def test_every_route_of_the_studio_is_documented() -> None:
    """The table of routes is the one that requests are matched against, in its order."""
    document = WEB.read_text("utf-8")
    lines = re.findall(r"^\| `(/web/[^`]*)` \| ([A-Z, ]+) \|", document, re.MULTILINE)

    assert [(path, ", ".join(handlers)) for path, handlers in ROUTES.items()] == lines
