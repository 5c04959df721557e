"""All errors of the package, in one tree; each says what to do about it.

It knows the contract's statuses and codes, but not how a response arrived.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenuto_client.records import Operation


class TenutoError(Exception):
    """The root: catch it to catch everything that this package raises on purpose."""

    code: str = "client_error"
    """Stable; branch on this or on the class, never on the message."""
    remedy: str | None = None
    """The command that fixes it, or shows what is wrong; None if there is none."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        request_id: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.param = param
        """The first faulty field or header, if the service named one."""
        self.request_id = request_id
        """Identifies the request in the service's logs."""
        self.remedy = remedy or _REMEDIES.get(self.code, type(self).remedy)


class NotConfigured(TenutoError):
    """No API key was given, set or saved for this address."""

    code = "not_configured"
    remedy = "tenuto login"


class InvalidSetting(TenutoError):
    """A base address or another setting of the client cannot be used."""

    code = "invalid_setting"


class JournalError(TenutoError):
    """The journal cannot be written, or an entry in it needs a decision; the message says what was sent."""

    code = "journal_error"


class AudioError(TenutoError):
    """A recording cannot be read or converted."""

    code = "audio_error"


class FFmpegFailed(AudioError):
    """The user's ffmpeg could not do it: the message ends with what it said, which may name files."""

    def __init__(self, summary: str, said: str) -> None:
        super().__init__(f"{summary}: {said}")
        self.summary = summary
        """The message without what ffmpeg said."""


class NoModel(TenutoError):
    """No model of this kind takes work from this key at the moment."""

    code = "no_model"
    remedy = "tenuto models"


class ServiceUnreachable(TenutoError):
    """The service did not answer, after all retries; sending the request again makes no second job."""

    code = "service_unreachable"
    remedy = "tenuto resume"


class UnexpectedAnswer(TenutoError):
    """The answer does not follow the contract: perhaps it came from another program, or from a proxy."""

    code = "unexpected_answer"


class Refused(TenutoError):
    """The service answered with an error status."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        details: tuple[Mapping[str, Any], ...] = (),
        retry_after_s: float | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(message, **attributes)
        self.status = status
        self.details = details
        """Every problem with the request, each with `param`, `code` and `message`."""
        self.retry_after_s = retry_after_s
        """Seconds to wait before sending the same request again, if the service gave them."""
        self.is_in_doubt = False
        """Whether a try of this request may have been accepted: it got no answer, or 408, 500, 502 or 504."""

    @property
    def is_foreign(self) -> bool:
        """Whether the answer lacks the service's error format: it came from a proxy or another program."""
        return self.code == f"http_{self.status}"


class InvalidRequest(Refused):
    """400: at least one field is wrong; `details` lists all of them. Nothing was stored."""


class AuthenticationFailed(Refused):
    """401: the key is wrong, expired or revoked."""


class NotAllowed(Refused):
    """403: the key may not use this model, or the balance does not cover the work."""


class InsufficientBalance(NotAllowed):
    """403 `insufficient_balance`: nothing is left, or pending jobs hold what is."""

    needed: str | None = None
    """What the job would hold, in CNY; None if the service did not say."""
    available: str | None = None
    """What the account has available, in CNY."""


class NotFound(Refused):
    """404: it does not exist, or it belongs to another account."""


class IdempotencyConflict(Refused):
    """409: this idempotency key belongs to another request. It is never sent again."""


class Erased(Refused):
    """410: the content was erased by its owner or by the service's retention; the record stays."""


class TooLarge(Refused):
    """413: larger than the service takes."""


class WrongMediaType(Refused):
    """415: not the media type that this endpoint takes."""


class RateLimited(Refused):
    """Still 429 after all retries."""


class ServiceFailed(Refused):
    """Still 5xx after all retries."""


class JobError(TenutoError):
    """A job without a result; keep its id, and never submit the work again under a new key."""

    def __init__(self, message: str, *, operation: Operation, **attributes: Any) -> None:
        super().__init__(message, **attributes)
        self.operation = operation
        """The job as the service last reported it."""

    @property
    def job_id(self) -> str:
        return self.operation.id


class JobFailed(JobError):
    """State `failed`: `code` says why (docs/errors.md); nothing was charged."""


class JobCancelled(JobError):
    """State `cancelled`: nothing was charged."""

    code = "job_cancelled"


class RecoveryRequired(JobError):
    """State `recovery_required`: the operator must settle the result or charge. Wait; do not submit again."""

    code = "recovery_required"


class UnknownState(JobError):
    """A state that this version does not know. Waiting stops, as the contract requires."""

    code = "unknown_state"


class ResultMissing(JobError):
    """`succeeded` without an artifact: report it with the operation's id."""

    code = "result_missing"


class GaveUpWaiting(JobError):
    """Waiting timed out. The job continues; waiting again waits for the same job."""

    code = "gave_up_waiting"


class ContentMismatch(TenutoError):
    """Every download differed from the announced size, hash or type; no file was written."""

    code = "content_mismatch"


class ChatInterrupted(TenutoError):
    """A streamed answer broke off before it was complete."""

    code = "chat_interrupted"


def utf8(text: str) -> bytes:
    """The text in UTF-8. Raises InvalidSetting for text from an argument or file name that is not UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidSetting(
            f"a text contains {error.object[error.start]!r}, which cannot be written in UTF-8"
        ) from error


_REMEDIES: dict[str, str] = {
    "invalid_api_key": "tenuto login",
    "model_not_allowed": "tenuto models",
    "model_unavailable": "tenuto models",
    "unknown_model": "tenuto models",
    "insufficient_balance": "tenuto balance",
    "rate_limited": "tenuto resume",
    "unavailable": "tenuto resume",
    "storage_failed": "tenuto resume",
    "internal_error": "tenuto resume",
    "artifact_unavailable": "tenuto resume",
    "gave_up_waiting": "tenuto resume",
    "content_mismatch": "tenuto resume",
    "unknown_voice": "tenuto voices list",
}

_BY_STATUS: dict[int, type[Refused]] = {
    400: InvalidRequest,
    401: AuthenticationFailed,
    403: NotAllowed,
    404: NotFound,
    409: IdempotencyConflict,
    410: Erased,
    413: TooLarge,
    415: WrongMediaType,
    429: RateLimited,
}
_BY_CODE: dict[str, type[Refused]] = {"insufficient_balance": InsufficientBalance}


def refusal(
    status: int, document: Any, *, request_id: str | None = None, retry_after_s: float | None = None
) -> Refused:
    """The error for a response with this status and JSON body (None if it was not JSON)."""
    told = document.get("error") if isinstance(document, Mapping) else None
    fields: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
    details = tuple(fault for fault in fields.get("details") or () if isinstance(fault, Mapping))
    code = str(fields.get("code") or f"http_{status}")
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, ServiceFailed if status >= 500 else Refused)
    first = str(details[0].get("code")) if details else ""
    error = kind(
        str(fields.get("message") or _unexplained(status)),
        status=status,
        details=details,
        retry_after_s=retry_after_s,
        code=code,
        param=fields.get("param"),
        request_id=fields.get("request_id") or request_id,
        remedy=_REMEDIES.get(first),
    )
    balance = fields.get("balance")
    if isinstance(error, InsufficientBalance) and isinstance(balance, Mapping):
        error.needed, error.available = balance.get("needed"), balance.get("available")
    return error


def _unexplained(status: int) -> str:
    """The message for a foreign body: a proxy may send 5xx or 429, anything else is another program's."""
    if status >= 500 or status == 429:
        return f"the service answered {status}"
    return f"the service answered {status} without Tenuto's error format: is this a Tenuto service?"
