"""The service below a path of its host: what it names is below it, and a proxy may take it off."""

from pathlib import Path

import pytest

from features.studio.browsers import PASSWORD, Studio
from features.studio.conftest import Open

pytestmark = pytest.mark.variant("database", only="postgresql")

INDEX = '<!doctype html><html lang="zh"><script src="/assets/app-1a2b.js"></script></html>'
PLACED = (
    '<!doctype html><html data-base="/a/tenuto" lang="zh">'
    '<script src="/a/tenuto/assets/app-1a2b.js"></script></html>'
)


@pytest.fixture
def placed(open_studio: Open, tmp_path: Path) -> Studio:
    """A built studio below /a/tenuto where everybody may register."""
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text(INDEX)
    (static / "index.html.br").write_bytes(b"the page at the root")
    (static / "assets" / "app-1a2b.js").write_text("1")
    return open_studio(registration="open", base_path="/a/tenuto", static=static)


def test_the_page_names_its_files_below_the_prefix(placed: Studio) -> None:
    """In every coding; the page is the same however a proxy asks for it."""
    browser = placed.browser()
    pages = [browser.get(path) for path in ("/a/tenuto", "/a/tenuto/", "/a/tenuto/jobs/x", "/jobs/x")]
    packed = browser.get("/a/tenuto/", **{"Accept-Encoding": "br, gzip"})
    files = [browser.get(path).text for path in ("/a/tenuto/assets/app-1a2b.js", "/assets/app-1a2b.js")]

    assert {PLACED} == {page.text for page in pages}
    assert ("gzip", PLACED) == (packed.headers["content-encoding"], packed.text)
    assert ["1", "1"] == files


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
    ("https", "cookie"),
    [(False, "tenuto_session="), (True, "__Secure-tenuto_session=")],
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
