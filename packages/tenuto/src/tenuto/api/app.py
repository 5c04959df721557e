"""The route table: the whole API on one screen."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

from tenuto.api import account, artifacts, cors, health, inputs, jobs, models
from tenuto.api.call import Endpoint, Handler
from tenuto.api.errors import error_answer
from tenuto.api.service import Service
from tenuto.config import Settings
from tenuto.errors import NotFound
from tenuto.feature import features
from tenuto.features.chat import routes as chat
from tenuto.features.events import routes as events
from tenuto.features.mcp import routes as mcp
from tenuto.features.openai import embeddings, images, lists, responses, speech, transcriptions
from tenuto.features.renditions import routes as renditions
from tenuto.features.voices import routes as voices
from tenuto.features.webhooks import routes as webhooks

Asgi = Callable[[Any, Any, Any], Awaitable[None]]

ROUTES: Mapping[str, Mapping[str, Handler]] = {
    "/v1/jobs": {"POST": jobs.create, "GET": jobs.index},
    "/v1/jobs/{job_id}": {"GET": jobs.show},
    "/v1/jobs/{job_id}/cancel": {"POST": jobs.cancel},
    "/v1/jobs/{job_id}/events": {"GET": events.of_job},
    "/v1/events": {"GET": events.of_account},
    "/v1/jobs/{job_id}/request": {"GET": jobs.request},
    "/v1/jobs/{job_id}/audio-segments": {"GET": artifacts.segments},
    "/v1/jobs/{job_id}/audio-segments/{segment_id}/content": {"GET": artifacts.segment_content},
    "/v1/jobs/{job_id}/content": {"DELETE": artifacts.erase_job_content},
    "/v1/artifacts/{artifact_id}": {"DELETE": artifacts.erase},
    "/v1/artifacts/{artifact_id}/content": {"GET": artifacts.content},
    "/v1/artifacts/{artifact_id}/rendition": {"GET": renditions.show},
    "/v1/voices": {"GET": voices.index, "POST": voices.create},
    "/v1/voices/{voice_id}": {"GET": voices.show, "PATCH": voices.rename, "DELETE": voices.delete},
    "/v1/voices/{voice_id}/content": {"GET": voices.content},
    "/v1/voice-preference": {"GET": voices.preferences, "PUT": voices.prefer},
    "/v1/input-artifacts": {"POST": inputs.create},
    "/v1/models": {"GET": models.index},
    "/v1/account/balance": {"GET": account.balance},
    "/v1/account/ledger": {"GET": account.ledger},
    "/v1/webhooks": {"GET": webhooks.index, "POST": webhooks.create},
    "/v1/webhooks/{webhook_id}": {
        "GET": webhooks.show,
        "PATCH": webhooks.change,
        "DELETE": webhooks.delete,
    },
    "/v1/webhooks/{webhook_id}/test": {"POST": webhooks.test},
    "/v1/webhooks/{webhook_id}/rotate": {"POST": webhooks.rotate},
    "/v1/webhooks/{webhook_id}/deliveries": {"GET": webhooks.deliveries},
    "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver": {"POST": webhooks.redeliver},
    "/v1/chat/completions": {"POST": chat.create},
    "/v1/models/{model}": {"GET": lists.show_model},
    "/v1/models/{owner}/{model}": {"GET": lists.show_model},
    "/v1/audio/speech": {"POST": speech.create},
    "/v1/audio/transcriptions": {"POST": transcriptions.create},
    "/v1/audio/translations": {"POST": transcriptions.refuse_translation},
    "/v1/images/generations": {"POST": images.create},
    "/v1/embeddings": {"POST": embeddings.create},
    "/v1/responses": {"POST": responses.create},
    "/v1/audio/voices": {"GET": lists.list_voices},
    "/v1/audio/models": {"GET": lists.list_models},
    "/livez": {"GET": health.live},
    "/readyz": {"GET": health.ready},
}

OPENAI_PATHS = ("/v1/audio/", "/v1/images/", "/v1/embeddings", "/v1/responses")
"""Prefixes of paths that exist only for programs written for OpenAI; a setting turns them off."""


def routes_of(settings: Settings) -> Mapping[str, Mapping[str, Handler]]:
    """The paths that a service with these settings answers: the core's, and those of features."""
    routes = {path: dict(handlers) for path, handlers in ROUTES.items()}
    for feature in features().values():
        if feature.routes:
            for path, handlers in feature.part(feature.routes)(settings).items():
                routes.setdefault(path, {}).update(handlers)
    if settings.openai_routes == "on":
        return routes
    return {path: handlers for path, handlers in routes.items() if not path.startswith(OPENAI_PATHS)}


def make_app(service: Service, beyond: Asgi | None = None) -> Asgi:
    """The ASGI application; `beyond` answers paths that are not in the table.

    Without it an unknown path is answered like everything else, as JSON with a request id.
    """
    routes = [
        (pattern(path), Endpoint(service, handlers, path))
        for path, handlers in routes_of(service.settings).items()
    ]
    beyond = beyond or nothing_under(service)
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

    if service.settings.mcp == "on":
        # The tools call the same application that they are a route of.
        tools = mcp.Tools(service, app)
        routes.append((pattern(mcp.PATH), Endpoint(service, {"POST": tools.call}, mcp.PATH)))
    return app


def nothing_under(service: Service) -> Asgi:
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
            service.chats.start()
        else:
            await service.chats.close()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
