"""Every error that Tenuto raises on purpose: one tree, one code each.

The docstring of a class is its default message. Nothing here knows HTTP: `api/errors.py` gives each
code its status.
"""

import errno
import os
import traceback
from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a request: where, which rule, and what would be right."""

    param: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.param}: {self.message}"


class TenutoError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "internal_error"
    is_internal: ClassVar[bool] = False
    """Its message may name paths and stores: it is for operators, and callers read the class's docstring."""
    limit: str | None = None
    """The limit that was exceeded, as docs/operations/limits.md and the metrics call it, or None."""

    def __init__(
        self, message: str | None = None, *, param: str | None = None, limit: str | None = None
    ) -> None:
        self.message = message or self.sentence()
        self.param = param
        if limit is not None:
            self.limit = limit
        super().__init__(self.message)

    @classmethod
    def sentence(cls) -> str:
        """The docstring of its class, which is true of every such error."""
        return " ".join((cls.__doc__ or "").split())


class InvalidRequest(TenutoError):
    """The request is not valid."""

    code = "invalid_request"

    def __init__(
        self, faults: list[Fault] | None = None, *, message: str | None = None, param: str | None = None
    ) -> None:
        self.faults = faults or []
        if message is None and self.faults:
            message = "; ".join(map(str, self.faults))
        if param is None and self.faults:
            param = self.faults[0].param
        super().__init__(message, param=param)


class InvalidApiKey(TenutoError):
    """The API key is missing, wrong, expired or revoked; send `Authorization: Bearer tn_…`."""

    code = "invalid_api_key"


class NotSignedIn(TenutoError):
    """Nobody is signed in here, or the session has ended; sign in."""

    code = "not_signed_in"


class InvalidLogin(TenutoError):
    """The name or the password is wrong."""

    code = "invalid_login"


class Forbidden(TenutoError):
    """This account may not do that."""

    code = "forbidden"


class ModelNotAllowed(TenutoError):
    """This API key may not use the model; GET /v1/models lists the models that it may use."""

    code = "model_not_allowed"


class InsufficientBalance(TenutoError):
    """The balance does not cover this job's pre-authorisation; the operator of the service can add credit."""

    code = "insufficient_balance"

    def __init__(
        self, message: str | None = None, *, needed: str | None = None, available: str | None = None
    ) -> None:
        super().__init__(message)
        self.needed = needed
        """What the job holds, in CNY with six places."""
        self.available = available
        """What the account has available."""
        self.is_for_a_program = False
        """Whether the answer says so as OpenAI does: `insufficient_quota`."""


class NotFound(TenutoError):
    """There is nothing under this id."""

    code = "not_found"


class Erased(TenutoError):
    """The content was erased; the record stays."""

    code = "erased"


class IdempotencyConflict(TenutoError):
    """This idempotency key already belongs to a different request; use a new key for new work."""

    code = "idempotency_conflict"


class CallStillOpen(IdempotencyConflict):
    """The call with this idempotency key is not finished; send the same request again a little later."""


class PayloadTooLarge(TenutoError):
    """The body is too large."""

    code = "payload_too_large"
    limit = "body"


class UnsupportedMediaType(TenutoError):
    """The media type is not supported."""

    code = "unsupported_media_type"


class ChecksumMismatch(TenutoError):
    """The bytes received do not have the SHA-256 that the header names; nothing was stored."""

    code = "checksum_mismatch"


class MalformedHttp(TenutoError):
    """The HTTP request is malformed."""

    code = "invalid_request"


class RequestTimeout(TenutoError):
    """The body arrived too slowly; nothing was stored, send it again."""

    code = "request_timeout"
    limit = "slow_body"


class MethodNotAllowed(TenutoError):
    """This path does not support this method; the Allow header lists the methods that it supports."""

    code = "method_not_allowed"


class RangeNotSatisfiable(TenutoError):
    """The range lies outside the content."""

    code = "range_not_satisfiable"


class PreconditionFailed(TenutoError):
    """The content is not the one that If-Match names."""

    code = "precondition_failed"


class RateLimited(TenutoError):
    """Too many requests; wait as long as Retry-After says."""

    code = "rate_limited"
    pause_s = 0.0
    """How long the answer is delayed, to a client that ignores Retry-After."""

    def __init__(
        self, message: str | None = None, *, retry_after_s: int = 1, limit: str | None = None
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message, limit=limit)


class Unavailable(TenutoError):
    """The service cannot answer just now; nothing was stored, send the same request again."""

    code = "unavailable"
    retry_after_s = 2


class CommitUnknown(Unavailable):
    """The database was lost during the commit, so its outcome is unknown; send the same request again."""


class ActUnknown(CommitUnknown):
    """The database was lost during the commit; check whether this was done before you send it again."""


class ModelUnavailable(Unavailable):
    """The model is temporarily unavailable; GET /v1/models shows `callable`. Nothing was stored."""

    code = "model_unavailable"
    retry_after_s = 10


class AnswerCutOff(ModelUnavailable):
    """The answer took longer, or is longer, than this service allows; with a price, what came is charged."""


class ArtifactUnavailable(Unavailable):
    """The content cannot be read just now; the job stays as it is."""

    code = "artifact_unavailable"
    retry_after_s = 10
    is_internal = True


class StoreUnreachable(ArtifactUnavailable):
    """The blob store does not respond, or denies access; it is unknown whether the content is there."""


class BucketMissing(StoreUnreachable):
    """The store has no such bucket."""


class StorageFailed(Unavailable):
    """The bytes could not be stored durably."""

    code = "storage_failed"
    is_internal = True


class StoreUnreachableForWrites(StorageFailed):
    """The blob store does not respond, or denies access; the same bytes may be written again."""


class Swept(TenutoError):
    """The bytes waited too long to be recorded and were removed; send them again."""

    code = "storage_failed"


class CorruptBlob(TenutoError):
    """Stored bytes do not match their checksum."""

    code = "artifact_unavailable"
    is_internal = True


class PriceInvalid(TenutoError):
    """The price of this job cannot be computed."""

    code = "internal_error"


class Stale(TenutoError):
    """Another change came first: the row is no longer in the state that this one starts from."""

    code = "stale"


class SettingsInvalid(TenutoError):
    """One or more settings are wrong."""

    code = "settings_invalid"


class OperatorError(TenutoError):
    """The command cannot be carried out."""

    code = "operator_error"


class FolderInUse(OperatorError):
    """Another `tenuto serve` already uses this data folder."""

    code = "folder_in_use"


_OF_THE_MACHINE = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EAGAIN),
    )
)
_NO_THREAD = "can't start new thread"
_WITHOUT_NUMBER = tuple(os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM))


def remedy_of_folder(error: OSError) -> str:
    """What to do about a data folder that cannot be written; one on a full disk must not be left behind."""
    return "free some space" if error.errno == errno.ENOSPC else "choose another with --data"


def is_of_the_machine(error: BaseException | None) -> bool:
    """Whether the error, or one of its causes, is the machine's, so that waiting may help: no disk space, a
    limit on the size of files, no descriptor, also for a library that is loaded, no memory, no thread, a disk
    that fails.
    """
    return any(map(_lacks_something, _chain(error)))


def causes(error: BaseException | None) -> str:
    """The error and its causes, a line each with the newest frame: evidence for operators alone."""
    lines = []
    for cause in _chain(error):
        frames = traceback.extract_tb(cause.__traceback__, limit=-1)
        at = f" ({PurePath(frames[0].filename).name}:{frames[0].lineno})" if frames else ""
        lines.append(f"{type(cause).__name__}: {cause}{at}")
    return "\n".join(lines)


def _lacks_something(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _OF_THE_MACHINE
    if isinstance(error, ImportError):
        # The dynamic loader reports only the system's message; psycopg lists one for each attempt.
        return any(words in str(error) for words in _WITHOUT_NUMBER)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error) == _NO_THREAD)


def _chain(error: BaseException | None) -> list[BaseException]:
    """The error and its causes; one that is raised from itself, or from what it caused, ends the chain."""
    chain: list[BaseException] = []
    while error is not None and all(error is not before for before in chain):
        chain.append(error)
        error = error.__cause__
    return chain
