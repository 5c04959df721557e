"""Whatever is sent, the answer is a 4xx that says why; nothing is stored and nothing breaks."""

from features.studio.browsers import Studio, error

JSON = {"Content-Type": "application/json"}
BODIES = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b'{"name": "a", "name": "b"}',
    b'{"name": "a\\u0000b", "password": "0123456789"}',
    b'{"name": "\\ud800", "password": "0123456789"}',
    b'{"amount_micros": NaN}',
    b'{"amount_micros": 1e400}',
    b'{"amount_micros": 123456789012345678901234567890}',
    b'{"models": {}}',
    b'{"models": [[]]}',
    b'{"action": null, "note": 1}',
    b'\xef\xbb\xbf{"name": "a"}',
    b'{"name": "\xff"}',
    b"[" * 1000,
    b'{"name": "a"} {}',
    b'{"token": {"$ne": null}, "password": ["x"]}',
)
HEADERS = (
    b"",
    b";",
    b"=",
    b"tenuto_session",
    b"tenuto_session=",
    b"tenuto_session=" + b"\xff" * 43,
    b"tenuto_session=" + b"A" * 43 + b"; tenuto_session=" + b"B" * 43,
    b"a=b=c;;;" * 100,
    b"\xe4\xbd\xa0\x7f",
    b"://",
    b"http://",
    b"http://[::1",
    b"::1%eth0, 1.2.3.4.5, , unknown, 999.0.0.1",
    b"x" * 8000,
)


def test_bodies_that_are_none_are_refused(studio: Studio) -> None:
    """Every path that reads one, for those who may use it: 400 with the fault, never 500."""
    operator = studio.operator()
    own = operator.account_id()
    paths = [
        *("/web/setup", "/web/register", "/web/invitations/accept", "/web/login", "/web/password"),
        *("/web/keys", "/web/operator/accounts", f"/web/operator/accounts/{own}/credit"),
        *(f"/web/operator/accounts/{own}/models", "/web/operator/recovery/job_" + "0" * 26),
    ]
    before = counts(studio)
    told = {
        (path, body): error(
            operator.request("POST", path, headers=JSON | {"Idempotency-Key": "k"}, content=body)
        )
        for path in paths
        for body in BODIES
    }
    large = operator.request("POST", "/web/login", headers=JSON, content=b" " * 65_537)

    assert {(400, "invalid_request")} == set(told.values())
    assert (413, "payload_too_large") == error(large)
    assert before == counts(studio)


def test_headers_that_are_none_are_nobodys(studio: Studio) -> None:
    """A cookie, an origin or an address that can't be read signs nobody in and breaks nothing."""
    studio.person("me")
    browser = studio.browser()
    read = {
        (name, value): browser.bare("GET", "/web/session", headers=[(name, value)]).status_code
        for name in (
            b"Cookie",
            b"X-Forwarded-For",
            b"X-Forwarded-Proto",
            b"Accept-Encoding",
            b"If-None-Match",
        )
        for value in HEADERS
    }
    written = {
        (name, value): browser.bare("POST", "/web/logout", headers=[(name, value)]).status_code
        for name in (b"Origin", b"Sec-Fetch-Site", b"Host")
        for value in HEADERS
    }

    assert {200} == set(read.values())
    assert {403} == set(written.values())


def test_ids_and_queries_that_are_none_are_not_found(studio: Studio) -> None:
    """In a path 404, in a query 400, as under /v1."""
    operator = studio.operator()
    paths = [
        *("/web/jobs/x/ledger", "/web/jobs/%00/ledger", "/web/jobs/%2e%2e/ledger"),
        *("/web/operator/recovery/x", "/web/operator/recovery/%27%20or%201=1"),
    ]
    queries = [
        *("/web/operator/accounts?limit=0", "/web/operator/accounts?after=x", "/web/usage?group="),
        *("/web/usage?from=%00", "/web/usage?from=1&from=2", "/web/operator/accounts?limit=1&limit=2"),
    ]

    assert {(404, "not_found")} == {error(operator.get(path)) for path in paths}
    assert {(400, "invalid_request")} == {error(operator.get(path)) for path in queries}


def counts(studio: Studio) -> list[int]:
    """How many rows there are that a request could have made."""
    tables = ("account", "login", "web_session", "invitation", "api_key", "entry")
    return [studio.row(f"select count(*) as n from {table}")["n"] for table in tables]
