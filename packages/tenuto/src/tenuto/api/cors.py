"""CORS: the headers with which browsers let pages of the origins in a setting call the API.

The API identifies callers by a bearer key, never by a cookie, so no credentials are allowed. The studio's
own routes allow no other origin, whatever the setting.
"""

from typing import Any

from tenuto.config.addresses import NONE

METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
EXPOSED = (
    b"etag, idempotent-replayed, location, preference-applied, retry-after, x-request-id, x-service-charged, "
    b"x-service-ignored, x-service-job, x-service-sha256, x-should-retry"
)
MAX_AGE_S = 600
"""How long a browser may cache the answer to a preflight."""
_NEVER = b"authorization, content-type, idempotency-key"


def origins(setting: str) -> frozenset[str]:
    """The origins that a setting names; `*` stands for all."""
    return frozenset() if setting == NONE else frozenset(part.strip() for part in setting.split(","))


def allowed(scope: Any, known: frozenset[str]) -> bytes | None:
    """The `Access-Control-Allow-Origin` for the answer to an API request; None: the header is left out."""
    if not known or not (scope["path"].startswith("/v1/") or scope["path"] == "/mcp"):
        return None
    origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
    if origin is None:
        return None
    if "*" in known:
        return b"*"
    return origin if origin.decode("latin-1") in known else None


def is_preflight(scope: Any) -> bool:
    """Whether this is a browser's preflight, sent before the request itself."""
    names = {name for name, _ in scope["headers"]}
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in names


async def answer_preflight(scope: Any, send: Any, origin: bytes) -> None:
    """Allow every method, and every header that is asked for."""
    asked = next(
        (value for name, value in scope["headers"] if name == b"access-control-request-headers"), _NEVER
    )
    headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", METHODS),
        (b"access-control-allow-headers", asked),
        (b"access-control-max-age", b"%d" % MAX_AGE_S),
        (b"vary", b"origin, access-control-request-headers"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def readable(send: Any, origin: bytes) -> Any:
    """A `send` whose answers pages of that origin may read."""

    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            own = [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", EXPOSED)]
            message["headers"] = [*message["headers"], *own, (b"vary", b"origin")]
        await send(message)

    return sent
