"""What each error looks like over HTTP: its status, its JSON, its headers. Only this module knows statuses.

Nothing here logs. Callers never see the text of an unexpected exception: it may contain a path or a secret.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from tenuto import errors
from tenuto.api import retry_after
from tenuto.api.answers import Answer

STATUS: Mapping[str, int] = {
    "invalid_request": 400,
    "checksum_mismatch": 400,
    "invalid_api_key": 401,
    "not_signed_in": 401,
    "invalid_login": 401,
    "forbidden": 403,
    "model_not_allowed": 403,
    "insufficient_balance": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "idempotency_conflict": 409,
    "erased": 410,
    "precondition_failed": 412,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "range_not_satisfiable": 416,
    "rate_limited": 429,
    "internal_error": 500,
    "unavailable": 503,
    "model_unavailable": 503,
    "artifact_unavailable": 503,
    "storage_failed": 503,
}
"""The status of each code in the contract; an error with any other code is our bug and answered with 500."""

TYPE: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    410: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "api_error",
}
"""The coarse `type` that OpenAI's SDKs show; every other status is an `invalid_request_error`."""

Refusal = tuple[int, errors.TenutoError]
"""A refusal by the server below the routes, where HTTP's statuses are finer than the contract's codes."""

MALFORMED: Refusal = (400, errors.MalformedHttp())
SLOW_HEAD: Refusal = (
    408,
    errors.RequestTimeout("The head of the request arrived too slowly.", limit="slow_head"),
)
LONG_TARGET: Refusal = (414, errors.MalformedHttp("The path and query are too long.", limit="head"))
LARGE_HEAD: Refusal = (
    431,
    errors.MalformedHttp("The header fields are too many or too large.", limit="head"),
)
FULL: Refusal = (
    503,
    errors.Unavailable("Too many connections are open; send the same request again.", limit="connections"),
)
CROWDED: Refusal = (
    503,
    errors.Unavailable(
        "Too many connections from this address are open; send the same request again.",
        limit="connections_per_address",
    ),
)
STOPPING: Refusal = (503, errors.Unavailable("The service is stopping; send the same request again."))
FAILED: Refusal = (500, errors.TenutoError())

_LACKING = errors.Unavailable(
    "The service's machine lacks memory, descriptors or room on its disk just now; nothing was stored,"
    " send the same request again."
)
_UNEXPECTED = errors.TenutoError("The service failed to answer; the fault is logged under this request id.")


def status_of(error: Exception) -> int:
    """The status that `error_answer` gives; for logs and metrics."""
    return STATUS[stated(error).code]


def cause_of_503(error: Exception) -> str:
    """Why an answer is 503. Callers can cause all but `service` at will: by asking for a model that is not
    callable or for a damaged artifact, or by exceeding a limit.
    """
    if isinstance(error, errors.ModelUnavailable):
        return "model"
    if getattr(error, "limit", None) is not None:
        return "limit"
    is_away = isinstance(error.__cause__ or error, errors.StoreUnreachable)
    return "artifact" if stated(error).code == "artifact_unavailable" and not is_away else "service"


def error_answer(error: Exception, request_id: str, status: int | None = None) -> Answer:
    """The answer to an error; one that the contract does not know gets a 500 or 503 that reveals nothing.

    `status` is that of a Refusal; without it, the code determines the status.
    """
    known = stated(error)
    status = status or STATUS[known.code]
    answer = Answer(status, error_body(known, request_id, status))
    if known.code == "invalid_api_key":
        answer.headers.append((b"www-authenticate", b"Bearer"))
    elif status == 409:
        is_open = isinstance(known, errors.CallStillOpen)
        answer.headers.append((b"x-should-retry", b"true" if is_open else b"false"))
    elif isinstance(known, errors.ActUnknown):
        answer.headers.append((b"x-should-retry", b"false"))
    if status in (429, 503) or isinstance(known, errors.CallStillOpen):
        answer.headers.append((b"retry-after", b"%d" % retry_after.of_error(known)))
    return answer


def error_body(error: errors.TenutoError, request_id: str, status: int) -> bytes:
    """The JSON of an error; `details` names every fault, `param` the first one."""
    faults = error.faults if isinstance(error, errors.InvalidRequest) else []
    body: dict[str, Any] = {
        "message": error.sentence() if error.is_internal else error.message,
        "type": TYPE.get(status, "invalid_request_error"),
        "code": error.code,
        "param": error.param,
        "details": [{"param": f.param, "code": f.code, "message": f.message} for f in faults],
        "request_id": request_id,
    }
    if isinstance(error, errors.InsufficientBalance) and error.needed is not None:
        body["balance"] = {"needed": error.needed, "available": error.available, "currency": "CNY"}
    if isinstance(error, errors.InsufficientBalance) and error.is_for_a_program:
        body["type"] = "insufficient_quota"
    return msgspec.json.encode({"error": body})


def stated(error: Exception) -> errors.TenutoError:
    """The error as the contract knows it."""
    if isinstance(error, errors.TenutoError) and error.code != "internal_error" and error.code in STATUS:
        return error
    return _LACKING if errors.is_of_the_machine(error) else _UNEXPECTED
