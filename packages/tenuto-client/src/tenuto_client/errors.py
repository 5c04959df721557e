"""Everything that can go wrong, in one tree; each error says what to do about it.

It knows the contract's statuses and codes, nothing of how an answer came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenuto_client.records import Operation


class TenutoError(Exception):
    """The root: catch it to catch all that this package raises on purpose."""

    code: str = "client_error"
    """Stable; branch on this or on the class, never on the message."""
    remedy: str | None = None
    """The command that mends it, or shows what is wrong; None when there is none."""

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
        """The first faulty field or header, when the service named one."""
        self.request_id = request_id
        """Names the request in the service's logs."""
        self.remedy = remedy or _REMEDIES.get(self.code, type(self).remedy)


class NotConfigured(TenutoError):
    """No API key was given, set or saved for this address."""

    code = "not_configured"
    remedy = "tenuto login"


class InvalidSetting(TenutoError):
    """A base address or another setting of the client cannot be used."""

    code = "invalid_setting"


class JournalError(TenutoError):
    """The journal cannot be written, so nothing was sent; or what stands in it needs a decision."""

    code = "journal_error"


class AudioError(TenutoError):
    """A recording cannot be read or converted."""

    code = "audio_error"


class NoModel(TenutoError):
    """No model of the wanted kind takes work from this key just now."""

    code = "no_model"
    remedy = "tenuto models"


class ServiceUnreachable(TenutoError):
    """The service did not answer, after as many tries as allowed; sending again makes no second job."""

    code = "service_unreachable"
    remedy = "tenuto resume"


class UnexpectedAnswer(TenutoError):
    """Something answered that does not speak the contract: perhaps another program, or a proxy."""

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
        **told: Any,
    ) -> None:
        super().__init__(message, **told)
        self.status = status
        self.details = details
        """Every fault of the request: `param`, `code`, `message` each."""
        self.retry_after_s = retry_after_s
        """Seconds after which the same request may be sent again, when the service said so."""
        self.is_in_doubt = False
        """Whether an earlier try of the same request got no answer, and may have been accepted."""


class InvalidRequest(Refused):
    """400: a field is wrong; `details` names all that are. Nothing was stored."""


class AuthenticationFailed(Refused):
    """401: the key is wrong, expired or revoked."""


class NotAllowed(Refused):
    """403: the key may not use this model, or the balance does not cover the work."""


class InsufficientBalance(NotAllowed):
    """403 `insufficient_balance`: pending jobs hold what is left, or there is nothing left."""


class NotFound(Refused):
    """404: there is no such thing, or it is another account's."""


class IdempotencyConflict(Refused):
    """409: this idempotency key belongs to another request. It is never sent again."""


class Erased(Refused):
    """410: the content was erased by its owner or by the service's retention; the record stays."""


class TooLarge(Refused):
    """413: larger than the service takes."""


class WrongMediaType(Refused):
    """415: another media type than the one that is taken here."""


class RateLimited(Refused):
    """429, still, after as many tries as allowed."""


class ServiceFailed(Refused):
    """5xx, still, after as many tries as allowed."""


class JobError(TenutoError):
    """A job that gave no result; its id is kept, and it is never submitted again under a new key."""

    def __init__(self, message: str, *, operation: Operation, **told: Any) -> None:
        super().__init__(message, **told)
        self.operation = operation
        """What the service said last."""

    @property
    def job_id(self) -> str:
        return self.operation.id


class JobFailed(JobError):
    """State `failed`: `code` says why (docs/errors.md); nothing was charged."""


class JobCancelled(JobError):
    """State `cancelled`: nothing was charged."""

    code = "job_cancelled"


class RecoveryRequired(JobError):
    """State `recovery_required`: result or charge need the operator; wait, do not submit it again."""

    code = "recovery_required"


class UnknownState(JobError):
    """A state that this version does not know. It stops, as the contract asks."""

    code = "unknown_state"


class ResultMissing(JobError):
    """`succeeded` without an artifact: report it with the operation's id."""

    code = "result_missing"


class GaveUpWaiting(JobError):
    """The job goes on; waiting again continues with the same one."""

    code = "gave_up_waiting"


class ContentMismatch(TenutoError):
    """What was downloaded is not what was promised, time and again; the file was not put in place."""

    code = "content_mismatch"


class ChatInterrupted(TenutoError):
    """A streamed answer broke off before its end."""

    code = "chat_interrupted"


def utf8(text: str) -> bytes:
    """The text's bytes. Raises InvalidSetting: an argument or a file's name of other bytes is no text."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidSetting(
            f"a text holds {error.object[error.start]!r}, which UTF-8 cannot carry"
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
    status: int, said: Any, *, request_id: str | None = None, retry_after_s: float | None = None
) -> Refused:
    """The error of an answer with this status and this JSON body (None when it was no JSON)."""
    error = said.get("error") if isinstance(said, Mapping) else None
    told: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    details = tuple(fault for fault in told.get("details") or () if isinstance(fault, Mapping))
    code = str(told.get("code") or f"http_{status}")
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, ServiceFailed if status >= 500 else Refused)
    first = str(details[0].get("code")) if details else ""
    return kind(
        str(told.get("message") or _unexplained(status)),
        status=status,
        details=details,
        retry_after_s=retry_after_s,
        code=code,
        param=told.get("param"),
        request_id=told.get("request_id") or request_id,
        remedy=_REMEDIES.get(first),
    )


def _unexplained(status: int) -> str:
    """A proxy says 5xx and 429 without a body of ours; all else comes from another program."""
    if status >= 500 or status == 429:
        return f"the service answered {status}"
    return f"the service answered {status}, not as Tenuto does: is the base address that of a Tenuto service?"
