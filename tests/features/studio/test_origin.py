"""The door: which pages a request may come from, who the client is, and what the cookie is like."""

from collections.abc import Iterator

import pytest

from features.studio.browsers import PROXY, Browser, Studio, error
from features.studio.conftest import Open
from tenuto import config
from tenuto.api import app as api
from tenuto.features.studio import tries
from tenuto.features.studio.app import ROUTES

pytestmark = pytest.mark.variant("database", only="postgresql")

HOST = "http://studio.test"
JSON = {"Content-Type": "application/json"}
NOWHERE = "0" * 26

FROM_OUR_PAGES = [
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "same-origin", "Origin": HOST},
    {"Origin": HOST},
    {"Origin": "HTTP://STUDIO.TEST"},
    # A proxy that speaks HTTPS and was not named to us.
    {"Origin": "https://studio.test"},
]
FROM_ELSEWHERE = [
    {},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": ""},
    {"Sec-Fetch-Site": "cross-site", "Origin": HOST},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://evil.test"},
    {"Origin": "http://studio.test.evil.test"},
    {"Origin": "http://studio.test:8081"},
    {"Origin": "ftp://studio.test"},
    {"Origin": "studio.test"},
    {"Referer": f"{HOST}/keys"},
]


def test_only_our_own_pages_change_anything(studio: Studio) -> None:
    """The matrix of Sec-Fetch-Site and Origin: who is signed in makes keys from our pages alone."""
    browser = studio.person("me")
    answers = [make_key(browser, headers) for headers in FROM_OUR_PAGES]
    refused = [make_key(browser, headers) for headers in FROM_ELSEWHERE]
    twice = browser.bare(
        "POST", "/web/keys", headers=[("Origin", HOST), ("Origin", HOST), *JSON.items()], json={"name": "x"}
    )
    form = browser.request(
        "POST",
        "/web/keys",
        headers={"Content-Type": "text/plain"},
        content='{"name": "x", "models": null}',
    )

    assert [201] * len(FROM_OUR_PAGES) == [status for status, _ in answers]
    assert [(403, "forbidden")] * len(FROM_ELSEWHERE) == refused
    assert (403, "forbidden") == error(twice)
    assert (415, "unsupported_media_type") == error(form)
    assert len(FROM_OUR_PAGES) == len(browser.get("/web/keys").json()["data"])


def test_every_path_that_changes_something_has_this_door(studio: Studio) -> None:
    """Each unsafe method of each path, the API's under /web/v1 too, refuses another site's page first."""
    browser = studio.person("me")
    answers = {
        (method, path): error(browser.bare(method, path, headers={"Sec-Fetch-Site": "cross-site"}))
        for method, path in paths()
        if method != "GET"
    }

    assert {(403, "forbidden")} == set(answers.values())
    assert ("POST", "/web/v1/jobs") in answers
    assert "me" == browser.name()


def test_the_api_takes_keys_alone(studio: Studio) -> None:
    """Under /v1 a session's cookie is nothing, and every answer is the one without it (R200)."""
    browser = studio.person("me")
    key = make_key(browser, {"Origin": HOST})[1]
    with_cookie = browser.get("/v1/models")
    with_key = browser.get("/v1/models", Authorization=f"Bearer {key}")

    assert (401, "invalid_api_key") == error(with_cookie)
    assert 200 == with_key.status_code


def test_reading_is_for_our_pages_too(studio: Studio) -> None:
    """Another site's page can't have an answer loaded as a script or an image; a person may open it."""
    browser = studio.person("me")
    allowed = [{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": HOST}]
    refused = [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.test"},
    ]

    assert [200] * 4 == [browser.bare("GET", "/web/keys", headers=head).status_code for head in allowed]
    assert [403] * 3 == [browser.bare("GET", "/web/keys", headers=head).status_code for head in refused]
    assert 200 == browser.bare("GET", "/", headers={"Sec-Fetch-Site": "cross-site"}).status_code


def test_answers_are_inert_and_in_no_cache(studio: Studio) -> None:
    """Nobody frames, sniffs, embeds or keeps them; refusals are no exception."""
    browser = studio.person("<img src=x onerror=alert(1)>")
    answers = [
        browser.get("/web/session"),
        browser.get("/web/keys"),
        browser.get("/web/nothing"),
        browser.get("/web/v1/jobs"),
        browser.bare("POST", "/web/keys"),
    ]

    assert {"nosniff"} == {answer.headers["x-content-type-options"] for answer in answers}
    assert {"DENY"} == {answer.headers["x-frame-options"] for answer in answers}
    assert {"no-store"} == {answer.headers["cache-control"] for answer in answers}
    assert {"same-origin"} == {answer.headers["cross-origin-resource-policy"] for answer in answers}
    assert {"application/json"} == {answer.headers["content-type"] for answer in answers}
    assert {"default-src 'none'; frame-ancestors 'none'; sandbox"} == {
        answer.headers["content-security-policy"] for answer in answers
    }
    assert not [answer for answer in answers if "access-control-allow-origin" in answer.headers]


def test_the_cookie_is_for_this_host_and_no_script(studio: Studio) -> None:
    """HttpOnly and SameSite=Strict; over HTTPS, as a named proxy tells it, `__Host-` and Secure besides."""
    studio.person("me")
    plain = studio.browser().log_in("me").headers["set-cookie"]
    secret = studio.browser(https=True).log_in("me").headers["set-cookie"]
    name, _, rest = plain.partition("=")
    host_name, _, host_rest = secret.partition("=")

    assert ("tenuto_session", "__Host-tenuto_session") == (name, host_name)
    assert "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict" == rest[43:]
    assert "; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure" == host_rest[43:]


def test_two_cookies_are_none(studio: Studio) -> None:
    """One of them is not of our making: a neighbour's page may have set it."""
    browser = studio.person("me")
    value = browser.cookies["tenuto_session"]
    other = studio.browser()
    sent = [
        other.get("/web/keys", Cookie=f"tenuto_session={value}"),
        other.get("/web/keys", Cookie=f"a=b; tenuto_session={value}; c"),
        other.get("/web/keys", Cookie=f"tenuto_session={value}; tenuto_session={value}"),
        other.get("/web/keys", Cookie=f"tenuto_session={value}x"),
        other.get("/web/keys", Cookie=f"__Host-tenuto_session={value}"),
    ]

    assert [200, 200, 401, 401, 401] == [answer.status_code for answer in sent]


def test_what_a_proxy_says_is_believed_when_it_was_named(open_studio: Open) -> None:
    """Without a name neither HTTPS nor another address is believed: anybody can write these headers."""
    believing, wary = open_studio(registration="open"), open_studio(trusted_proxies="none")
    believing.person("me")
    told = believing.browser(https=True).log_in("me")
    not_told = wary.browser(https=True).log_in("me")

    assert told.headers["set-cookie"].startswith("__Host-")
    assert not_told.headers["set-cookie"].startswith("tenuto_session=")


def test_the_address_is_the_last_one_that_a_named_proxy_saw(open_studio: Open) -> None:
    """What stands before it in X-Forwarded-For was written by the client: it can't have other addresses."""
    studio = open_studio(registration="open", trusted_proxies=f"{PROXY}, 192.0.2.0/24")
    for number in range(19):
        for address in ("203.0.113.5", "2001:db8:0:1::/64"):
            studio.edge.throttle.take(tries.of_password(address, f"name {number}"), "login_tries")
    forged = [f"198.51.100.{number}, 203.0.113.5, 192.0.2.7" for number in range(2)]
    statuses = [studio.browser(address=told).log_in(f"name {told}").status_code for told in forged]
    six = [f"2001:db8:0:1::{number}" for number in range(2)]
    six_statuses = [studio.browser(address=told).log_in(f"name {told}").status_code for told in six]

    assert [401, 429] == statuses
    assert [401, 429] == six_statuses
    assert 401 == studio.browser(address="203.0.113.6").log_in("another").status_code


def make_key(browser: Browser, headers: dict[str, str]) -> tuple[int, str]:
    """Status, and the key or the code of the refusal."""
    answer = browser.bare("POST", "/web/keys", headers=headers, json={"name": "mine"})
    if answer.status_code == 201:
        return 201, answer.json()["key"]
    return error(answer)


def paths() -> Iterator[tuple[str, str]]:
    """Every method and path of the studio's edge, with ids that are nobody's."""
    kinds = {"job_id": "job", "key_id": "key", "account_id": "account", "artifact_id": "artifact"}
    kinds |= {"voice_id": "voice", "segment_id": "segment"}
    routes = api.routes_of(config.load({})).items()
    tables = [
        *ROUTES.items(),
        *(("/web" + path, handlers) for path, handlers in routes if path.startswith("/v1/")),
    ]
    for shape, handlers in tables:
        path = shape
        for name, kind in kinds.items():
            path = path.replace(f"{{{name}}}", f"{kind}_{NOWHERE}")
        for method in handlers:
            yield method, path
