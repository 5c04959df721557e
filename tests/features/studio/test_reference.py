"""The API reference at /docs and the document that it shows: served without a build, below any path."""

import gzip
from typing import Any

import pytest
import yaml
from scripts import openapi_json

from features.studio.browsers import Studio
from features.studio.conftest import Open
from features.studio.test_pages import POLICY
from tenuto.features.studio.pages import REFERENCE

pytestmark = pytest.mark.variant("database", only="postgresql")

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


@pytest.mark.parametrize("path", ["/docs", "/docs/docs.js", "/openapi.json", "/openapi.yaml"])
def test_what_a_browser_has_is_not_sent_again(studio: Studio, path: str) -> None:
    """An ETag for each coding; HEAD has the headers of GET and no body."""
    browser = studio.browser()
    whole, packed = (browser.get(path, **{"Accept-Encoding": each}) for each in ("identity", "gzip"))
    again = browser.get(path, **{"Accept-Encoding": "gzip", "If-None-Match": packed.headers["etag"]})
    head = browser.request("HEAD", path)

    assert (None, "gzip") == (whole.headers.get("content-encoding"), packed.headers["content-encoding"])
    assert whole.content == packed.content
    assert whole.headers["etag"] != packed.headers["etag"]
    assert (304, b"") == (again.status_code, again.content)
    assert (200, b"") == (head.status_code, head.content)


def test_below_a_path_the_reference_names_that_path(open_studio: Open) -> None:
    """The document names the path as its server; the page names its files relatively."""
    browser = open_studio(base_path="/a/tenuto").browser()
    page = browser.get("/a/tenuto/docs").text
    names = [each.split('"')[0] for name in ("src=", "href=") for each in page.split(f'{name}"')[1:]]

    assert ours("/a/tenuto") == browser.get("/a/tenuto/openapi.json").json()
    assert browser.get("/docs").text == page
    assert [] == [name for name in names if name.startswith("/")]


def test_nothing_else_lies_beside_it(studio: Studio) -> None:
    """Only what the page loads is there, under one address each."""
    for path in (
        "/docs/docs.html",
        "/docs/openapi.json",
        "/docs/",
        "/docs/../pages.py",
        "/reference/docs.js",
    ):
        assert 404 == studio.browser().get(path).status_code, path
