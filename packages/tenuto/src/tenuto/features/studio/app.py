"""The studio's route table, and the headers that all its answers have.

`/web/v1/…` is the API again, with the same code; only the caller is identified in another way.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from tenuto.api import app as api
from tenuto.api.answers import Answer
from tenuto.api.app import pattern
from tenuto.api.call import Call, Endpoint, Handler
from tenuto.api.server import Asgi
from tenuto.api.service import Part, Service
from tenuto.features.studio import api_keys, money, operator, oversight, people, sessions
from tenuto.features.studio.browser import SAFE, refuse_other_sites
from tenuto.features.studio.pages import Pages
from tenuto.features.studio.studio import Studio, by_session, make_studio

StudioHandler = Callable[[Studio, Call], Awaitable[Answer | None]]

ROUTES: Mapping[str, Mapping[str, StudioHandler]] = {
    "/web/session": {"GET": people.show},
    "/web/setup": {"POST": people.set_up},
    "/web/register": {"POST": people.register},
    "/web/invitations/accept": {"POST": people.accept},
    "/web/login": {"POST": people.log_in},
    "/web/logout": {"POST": people.log_out},
    "/web/password": {"POST": people.change_password},
    "/web/keys": {"GET": api_keys.index, "POST": api_keys.create},
    "/web/keys/{key_id}": {"DELETE": api_keys.revoke},
    "/web/keys/{key_id}/rotation": {"POST": api_keys.rotate},
    "/web/usage": {"GET": money.usage},
    "/web/ledger.csv": {"GET": money.ledger_csv},
    "/web/jobs/{job_id}/ledger": {"GET": money.job_ledger},
    "/web/operator/accounts": {"GET": operator.list_accounts, "POST": operator.create_account},
    "/web/operator/accounts/{account_id}/invitation": {"POST": operator.invite},
    "/web/operator/accounts/{account_id}/credit": {"POST": operator.credit},
    "/web/operator/accounts/{account_id}/models": {"POST": operator.restrict},
    "/web/operator/accounts/{account_id}/suspend": {"POST": operator.suspend},
    "/web/operator/accounts/{account_id}/resume": {"POST": operator.resume},
    "/web/operator/models": {"GET": oversight.list_models, "POST": oversight.change_model},
    "/web/operator/pull": {
        "GET": oversight.show_pull,
        "POST": oversight.begin_pull,
        "DELETE": oversight.stop_pull,
    },
    "/web/operator/changes": {"GET": oversight.list_changes},
    "/web/operator/queue": {"GET": operator.queue},
    "/web/operator/statistics": {"GET": oversight.show_statistics},
    "/web/operator/workers": {"GET": operator.workers},
    "/web/operator/log": {"GET": oversight.show_log},
    "/web/operator/recovery": {"GET": operator.list_waiting},
    "/web/operator/recovery/{job_id}": {"GET": operator.show_waiting, "POST": operator.decide},
}
PAGES = (
    "/",
    "/login",
    "/register",
    "/setup",
    "/invite",
    "/speech",
    "/voices",
    "/recognition",
    "/images",
    "/chat",
    "/jobs",
    "/jobs/{job_id}",
    "/keys",
    "/usage",
    "/webhooks",
    "/settings",
    "/operator",
    "/operator/{page}",
    "/operator/{page}/{id}",
)
"""The studio's paths; one page serves all of them and routes them itself."""

_EVERYWHERE = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]
# With `no-referrer`, browsers would send `Origin: null` with forms, which could be another site's.
PAGE_HEADERS = [
    *_EVERYWHERE,
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        b"media-src 'self' blob:; connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'none'; "
        b"base-uri 'none'; form-action 'self'; object-src 'none'",
    ),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"microphone=(self), camera=(), geolocation=(), payment=(), usb=()"),
]
ANSWER_HEADERS = [
    *_EVERYWHERE,
    # An uploaded file that is opened by itself can run and load nothing.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
]


class StudioPart(Part):
    """The studio in an API process: its routes, its pages, and the prefix of all paths."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.studio = make_studio(service.settings)
        self.pages: Pages | None = None
        """None: those of this installation."""
        service.last_uses.append((self.studio.seen, sessions.note_seen))

    def beyond(self, nothing: Asgi) -> Asgi:
        pages = self.pages or Pages(base=self.studio.base)
        return _beyond(self._service, self.studio, pages, nothing)

    def around(self, app: Asgi) -> Asgi:
        return below(self.studio.base, app)

    def close(self) -> None:
        self.studio.hashing.close()
        self.studio.pull.stop()


def _beyond(service: Service, studio: Studio, pages: Pages, nothing: Asgi) -> Asgi:
    """The studio's side of the API, and the pages."""
    identify = by_session(studio)
    answers = [
        (pattern(path), Endpoint(service, _guarded(studio, handlers), path, identify))
        for path, handlers in _tables(service, studio).items()
    ]
    page = Endpoint(service, {"GET": pages.page}, "(page)")
    missing = Endpoint(service, {"GET": pages.missing}, "(page)")
    file = Endpoint(service, {"GET": pages.file}, "(file)")
    shapes = [pattern(path) for path in PAGES]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path.startswith("/web/"):
            send = _with_headers(send, ANSWER_HEADERS, private=True)
            for shape, endpoint in answers:
                match = shape.match(path)
                if match is not None:
                    scope["path_params"] = match.groupdict()
                    await endpoint(scope, receive, send)
                    return
        elif any(shape.match(path) for shape in shapes):
            await page(scope, receive, _with_headers(send, PAGE_HEADERS))
            return
        elif pages.has(path):
            await file(scope, receive, _with_headers(send, PAGE_HEADERS))
            return
        elif not path.startswith("/v1/") and _is_navigation(scope):
            await missing(scope, receive, _with_headers(send, PAGE_HEADERS))
            return
        await nothing(scope, receive, send)

    return app


def below(base: str, app: Asgi) -> Asgi:
    """The application under a path prefix, which a proxy may strip or leave to us.

    So the probes answer without it, too. A `Location` in an answer includes the prefix.
    """
    if not base:
        return app
    prefix = base.encode()

    async def placed(scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    (name, prefix + value) if name == b"location" else (name, value)
                    for name, value in message["headers"]
                ]
            await send(message)

        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if scope["path"] == base or scope["path"].startswith(base + "/"):
            scope["path"] = scope["path"].removeprefix(base) or "/"
            scope["raw_path"] = scope["raw_path"].removeprefix(prefix) or b"/"
        await app(scope, receive, sent)

    return placed


def _tables(service: Service, studio: Studio) -> dict[str, dict[str, Handler]]:
    """The API's routes under /web, and the studio's own."""
    tables: dict[str, dict[str, Handler]] = {
        "/web" + path: dict(handlers)
        for path, handlers in api.routes_of(service.settings).items()
        if path.startswith("/v1/")
    }
    for path, handlers in ROUTES.items():
        tables[path] = {method: partial(handler, studio) for method, handler in handlers.items()}
    return tables


def _guarded(studio: Studio, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """The same methods behind one guard: nothing is read of a request that another site's page made."""

    def guard(handler: Handler) -> Handler:
        async def guarded(call: Call) -> Answer | None:
            refuse_other_sites(call, https=studio.is_https(call))
            return await handler(call)

        return guarded

    return {method: guard(handler) for method, handler in handlers.items()}


def _is_navigation(scope: Any) -> bool:
    """Whether a person opened this path in a browser, and should get a page that says what is wrong."""
    if scope["method"] not in SAFE:
        return False
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def _with_headers(send: Any, headers: list[tuple[bytes, bytes]], *, private: bool = False) -> Any:
    """A `send` that adds these headers. Only browsers may cache private answers, and only with an ETag."""

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            there = [_here(name, value) if private else (name, value) for name, value in message["headers"]]
            names = {name for name, _ in there}
            if private and b"cache-control" not in names:
                policy = b"private, no-cache" if b"etag" in names else b"no-store"
                there.append((b"cache-control", policy))
            message["headers"] = [*there, *[each for each in headers if each[0] not in names]]
        await send(message)

    return sent


def _here(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The header unchanged, except that a `Location` in the API gets the prefix /web."""
    return (name, b"/web" + value) if name == b"location" and value.startswith(b"/v1/") else (name, value)
