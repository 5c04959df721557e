"""What errors look like over HTTP."""

import errno
import json
from typing import Any

import pytest

from tenuto import errors
from tenuto.api.answers import Answer
from tenuto.api.errors import FAILED, FULL, LARGE_HEAD, STATUS, error_answer, status_of

EVERY = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, errors.TenutoError)]
INTERNAL = {"stale", "settings_invalid", "operator_error", "folder_in_use", "internal_error"}
"""Codes that belong to the command line and the inside: over HTTP they would be a bug of ours."""


def told(response: Answer) -> dict[str, Any]:
    error: dict[str, Any] = json.loads(response.body)["error"]
    return error


def headers_of(response: Answer) -> dict[str, str]:
    """All headers as they are sent."""
    return {name.decode(): value.decode() for name, value in response.head("req_1")}


@pytest.mark.parametrize(
    ("error", "status", "type_"),
    [
        (errors.InvalidRequest(), 400, "invalid_request_error"),
        (errors.ChecksumMismatch(), 400, "invalid_request_error"),
        (errors.MalformedHttp(), 400, "invalid_request_error"),
        (errors.InvalidApiKey(), 401, "authentication_error"),
        (errors.ModelNotAllowed(), 403, "permission_error"),
        (errors.InsufficientBalance(), 403, "permission_error"),
        (errors.NotFound(), 404, "not_found_error"),
        (errors.MethodNotAllowed(), 405, "invalid_request_error"),
        (errors.RequestTimeout(), 408, "invalid_request_error"),
        (errors.IdempotencyConflict(), 409, "conflict_error"),
        (errors.Erased(), 410, "not_found_error"),
        (errors.PreconditionFailed(), 412, "invalid_request_error"),
        (errors.PayloadTooLarge(), 413, "invalid_request_error"),
        (errors.UnsupportedMediaType("input must be audio/flac"), 415, "invalid_request_error"),
        (errors.RangeNotSatisfiable(), 416, "invalid_request_error"),
        (errors.RateLimited(), 429, "rate_limit_error"),
        (errors.Unavailable(), 503, "api_error"),
        (errors.ModelUnavailable(), 503, "api_error"),
        (errors.ArtifactUnavailable(), 503, "api_error"),
        (errors.StorageFailed(), 503, "api_error"),
        (errors.CorruptBlob(), 503, "api_error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_has_its_status_and_shape(error: errors.TenutoError, status: int, type_: str) -> None:
    """Every field is always there; the header repeats the request id."""
    response = error_answer(error, "req_1")
    expected: dict[str, Any] = {
        "message": error.message,
        "type": type_,
        "code": error.code,
        "param": None,
        "details": [],
        "request_id": "req_1",
    }

    assert expected == told(response)
    assert (status, status) == (response.status, status_of(error))
    assert ("req_1", "application/json") == (
        headers_of(response)["x-request-id"],
        headers_of(response)["content-type"],
    )


def test_every_code_has_a_status_or_stays_inside() -> None:
    """An error added to the tree is decided on here too."""

    assert {error.code for error in EVERY} - INTERNAL == set(STATUS) - INTERNAL


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (errors.InvalidApiKey(), {"www-authenticate": "Bearer"}),
        (errors.IdempotencyConflict(), {"x-should-retry": "false"}),
        (errors.CommitUnknown(), {"retry-after": "2"}),
        (errors.ActUnknown(), {"retry-after": "2", "x-should-retry": "false"}),
        (errors.RateLimited(retry_after_s=7), {"retry-after": "7"}),
        (errors.RateLimited(retry_after_s=0), {"retry-after": "1"}),
        (errors.RateLimited(retry_after_s=100_000), {"retry-after": "120"}),
        (errors.ModelUnavailable(), {"retry-after": "10"}),
        (errors.CorruptBlob(), {"retry-after": "2"}),
        (errors.NotFound(), {}),
    ],
)
def test_headers_say_how_to_go_on(error: errors.TenutoError, headers: dict[str, str]) -> None:
    """Retry-After is 1 to 120 seconds; a conflict is not worth a retry; an act in doubt is not repeated."""
    response = error_answer(error, "req_1")
    spoken = {"www-authenticate", "x-should-retry", "retry-after"} & set(headers_of(response))

    assert headers == {name: headers_of(response)[name] for name in spoken}


@pytest.mark.parametrize("kind", [errors.StorageFailed, errors.ArtifactUnavailable, errors.StoreUnreachable])
def test_a_store_that_fails_tells_callers_no_path(kind: type[errors.TenutoError]) -> None:
    """What a store said, with a path or a key in it, is for the log; the caller reads a fixed sentence."""
    response = error_answer(kind("/data/blobs/7f says tn_secret"), "req_1")

    assert (503, kind.sentence()) == (response.status, told(response)["message"])


@pytest.mark.parametrize(
    "error",
    [
        ValueError("/data/tenuto.db: tn_secret"),
        errors.Stale("tn_secret"),
        errors.OperatorError("tn_secret"),
        errors.TenutoError("tn_secret"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_unexpected_error_tells_nothing_of_itself(error: Exception) -> None:
    """500 `internal_error`, with the request id under which the log has more (P16)."""
    response = error_answer(error, "req_1")

    assert (500, "internal_error") == (response.status, told(response)["code"])
    assert b"secret" not in response.body


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files", "/data/secret"),
        OSError(errno.ENOSPC, "No space left on device"),
        MemoryError(),
        RuntimeError("can't start new thread"),
    ],
)
def test_what_the_machine_lacks_is_no_defect(error: Exception) -> None:
    """503, to be sent again, and nothing of where it was met."""
    response = error_answer(error, "req_1")

    assert (503, "unavailable") == (response.status, told(response)["code"])
    assert headers_of(response)["retry-after"]
    assert "secret" not in response.body.decode()


def test_the_server_below_names_finer_statuses() -> None:
    """431 has the code `invalid_request`; 503 says when to come again."""
    large = error_answer(LARGE_HEAD[1], "req_1", LARGE_HEAD[0])
    full = error_answer(FULL[1], "req_1", FULL[0])
    failed = error_answer(FAILED[1], "req_1", FAILED[0])

    assert (431, "invalid_request") == (large.status, told(large)["code"])
    assert (503, "unavailable", "2") == (full.status, told(full)["code"], headers_of(full)["retry-after"])
    assert (500, "internal_error") == (failed.status, told(failed)["code"])
