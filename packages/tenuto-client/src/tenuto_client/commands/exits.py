"""How a command exits: stable exit codes, and one line with the reason."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenuto_client.commands.console import Console
    from tenuto_client.errors import TenutoError

OK = 0
FAILED = 1
"""The job failed or was cancelled, or a local error: a file could not be written."""
USAGE = 2
"""The command line is wrong, or the service refused the request."""
RECOVERY = 3
"""`recovery_required`, or a state that this version does not know."""
AUTHENTICATION = 4
NETWORK = 5
"""No response, or a temporary refusal, after all retries."""
GAVE_UP = 6
"""The job continues."""
CHECKSUM = 7
CONFLICT = 8
INTERRUPTED = 130


def exit_code(error: Exception) -> int:
    """The exit code for an error."""
    from tenuto_client import errors

    table: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
        ((errors.IdempotencyConflict,), CONFLICT),
        ((errors.ContentMismatch,), CHECKSUM),
        ((errors.GaveUpWaiting,), GAVE_UP),
        ((errors.RecoveryRequired, errors.UnknownState, errors.ResultMissing), RECOVERY),
        ((errors.ServiceUnreachable, errors.RateLimited, errors.ServiceFailed), NETWORK),
        ((errors.InsufficientBalance,), FAILED),
        ((errors.AuthenticationFailed, errors.NotAllowed, errors.NotConfigured), AUTHENTICATION),
        ((errors.UnexpectedAnswer, errors.ChatInterrupted), NETWORK),
        ((errors.InvalidRequest, errors.NotFound, errors.TooLarge, errors.WrongMediaType), USAGE),
        ((errors.InvalidSetting, errors.AudioError), USAGE),
    )
    return next((code for kinds, code in table if isinstance(error, kinds)), FAILED)


def report(error: Exception, console: Console) -> int:
    """Print an error and what fixes it; returns the exit code. Re-raises anything that is our own bug."""
    from tenuto_client.commands import local
    from tenuto_client.commands.words import t, translated
    from tenuto_client.errors import InsufficientBalance, JobCancelled, JobFailed, Refused, TenutoError
    from tenuto_client.settings import API_KEY

    if isinstance(error, TenutoError):
        message = _sentence(error)
        if isinstance(error, Refused) and error.request_id:
            message += f" [{error.request_id}]"
        remedy = error.remedy
        if isinstance(error, InsufficientBalance):
            remedy = local.credit_command(console)
        elif error.code == "invalid_api_key" and os.environ.get(API_KEY):
            # It takes precedence over every saved key, so another login would change nothing.
            remedy = t("unset {variable} to use the saved key, or set another", variable=API_KEY)
        elif remedy == "tenuto resume":
            # The command that continues this one; None if there is nothing to continue.
            remedy = getattr(console.options, "continuation", None)
        elif isinstance(error, JobFailed | JobCancelled) and hasattr(console.options, "again"):
            remedy = t("run the command again with --again for a new job")
        console.error(message, remedy)
        return exit_code(error)
    if isinstance(error, OSError):
        message = t(
            "{path}: {why}", path=error.filename or t("a file"), why=translated(error.strerror or str(error))
        )
        console.error(message, getattr(console.options, "continuation", None))
        return FAILED
    raise error


def _sentence(error: TenutoError) -> str:
    """What went wrong: a sentence from the service needs no headline, unless it cannot be translated."""
    from tenuto_client.commands.words import is_chinese, t, translated
    from tenuto_client.errors import Refused

    text = translated(error.message)
    is_whole = isinstance(error, Refused) and (not is_chinese() or text != error.message)
    headline = "" if is_whole else t(_HEADLINES.get(error.code, ""))
    return f"{headline}{t(': ')}{text}" if headline else text


_HEADLINES = {
    "invalid_api_key": "the API key was rejected",
    "model_not_allowed": "your key may not use this model",
    "insufficient_balance": "the balance is too low",
    "idempotency_conflict": "this idempotency key was used for another request",
    "rate_limited": "too many requests, or the service is busy",
    "unavailable": "the service is not ready",
    "model_unavailable": "the model does not accept jobs right now",
    "service_unreachable": "the service cannot be reached",
    "content_mismatch": "the download does not match its checksum",
    "gave_up_waiting": "stopped waiting; the job continues",
    "recovery_required": "the job needs an operator",
    "unknown_state": "the job is in a state that this version does not know",
    "job_cancelled": "the job was cancelled",
    "nothing_to_speak": "the text contains nothing to speak",
    "not_configured": "no API key",
    "not_found": "not found",
    "invalid_request": "the service rejected the request",
    "payload_too_large": "the request is too large",
    "other_api_key": "another API key was used before",
    "no_model": "no model available",
    "journal_error": "the journal cannot be used",
    "audio_error": "the recording cannot be used",
}
