"""The route table: what the core answers, and with its features the whole API."""

import re
from typing import Any
from urllib.parse import unquote

from tenuto.api import account, artifacts, cors, health, inputs, jobs, models
from tenuto.api.call import Endpoint, Routes
from tenuto.api.errors import error_answer
from tenuto.api.server import Asgi
from tenuto.api.service import Service
from tenuto.config import Settings
from tenuto.errors import NotFound
from tenuto.feature import features

ROUTES: Routes = {
    "/v1/jobs": {"POST": jobs.create, "GET": jobs.index},
    "/v1/jobs/{job_id}": {"GET": jobs.show},
    "/v1/jobs/{job_id}/cancel": {"POST": jobs.cancel},
    "/v1/jobs/{job_id}/request": {"GET": jobs.request},
    "/v1/jobs/{job_id}/audio-segments": {"GET": artifacts.segments},
    "/v1/jobs/{job_id}/audio-segments/{segment_id}/content": {"GET": artifacts.segment_content},
    "/v1/jobs/{job_id}/content": {"DELETE": artifacts.erase_job_content},
    "/v1/artifacts/{artifact_id}": {"DELETE": artifacts.erase},
    "/v1/artifacts/{artifact_id}/content": {"GET": artifacts.content},
    "/v1/input-artifacts": {"POST": inputs.create},
    "/v1/models": {"GET": models.index},
    "/v1/account/balance": {"GET": account.balance},
    "/v1/account/ledger": {"GET": account.ledger},
    "/livez": {"GET": health.live},
    "/readyz": {"GET": health.ready},
}
"""Of the core alone."""


def routes_of(settings: Settings) -> Routes:
    """All that a service with these settings answers: the core's routes, and those of its features."""
    routes = {path: dict(handlers) for path, handlers in ROUTES.items()}
    for feature in features().values():
        if feature.routes:
            for path, handlers in feature.part(feature.routes)(settings).items():
                routes.setdefault(path, {}).update(handlers)
    return routes


def make_app(service: Service) -> Asgi:
    """The ASGI application, with what its features put around it.

    An unknown path is answered like everything else, as JSON with a request id, unless a feature knows it.
    """
    routes = [
        (pattern(path), Endpoint(service, handlers, path))
        for path, handlers in routes_of(service.settings).items()
    ]
    beyond = _nothing_under(service)
    for part in service.parts.values():
        beyond = part.beyond(beyond)
    origins = cors.origins(service.settings.cors_origins)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(service, receive, send)
            return
        if (origin := cors.allowed(scope, origins)) is not None:
            if cors.is_preflight(scope):
                await cors.answer_preflight(scope, send, origin)
                return
            send = cors.readable(send, origin)
        if b"%2f" in scope["raw_path"].lower():
            scope["path"] = _path(scope["raw_path"])
        path = scope["path"]
        for shape, endpoint in routes:
            match = shape.match(path)
            if match is not None:
                scope["path_params"] = match.groupdict()
                await endpoint(scope, receive, send)
                return
        await beyond(scope, receive, send)

    whole: Asgi = app
    service.app = app
    for part in service.parts.values():
        whole = part.around(whole)
    return whole


def _nothing_under(service: Service) -> Asgi:
    """An application that answers every path with 404."""

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        request_id = service.ids.new("req")
        answer = error_answer(NotFound("There is nothing under this path."), request_id)
        await answer.send(send, request_id)

    return nothing


def pattern(path: str) -> re.Pattern[str]:
    """`/v1/jobs/{job_id}` as a pattern for whole paths; a name matches one segment."""
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path) + r"\Z")


def _path(raw_path: bytes) -> str:
    """The path decoded, except for slashes: `a%2Fb` is one malformed id, not two segments."""
    return "/".join(unquote(part).replace("/", "%2F") for part in raw_path.decode("ascii").split("/"))


async def _lifespan(service: Service, receive: Any, send: Any) -> None:
    """Start what lives in the event loop before the first request, and end it after the last one."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            for part in service.parts.values():
                part.start()
        else:
            for part in service.parts.values():
                with service.logged(part, "end"):
                    await part.end()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
