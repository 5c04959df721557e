"""Tenuto's client: durable speech, recognition and images, and chat, from Python.

    from tenuto_client import Tenuto

    with Tenuto() as client:
        job = client.speech.create("Hold the note.", lang="en")
        job.download("note.wav")

Every public name is listed here and loaded on first use, so importing this package is cheap.
It depends only on the HTTP contract, on none of the service's code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenuto_client.aio import AsyncTenuto as AsyncTenuto
    from tenuto_client.aio_jobs import AsyncJob as AsyncJob
    from tenuto_client.chat import ChatChunk as ChatChunk
    from tenuto_client.chat import ChatCompletion as ChatCompletion
    from tenuto_client.client import Tenuto as Tenuto
    from tenuto_client.errors import AudioError as AudioError
    from tenuto_client.errors import AuthenticationFailed as AuthenticationFailed
    from tenuto_client.errors import ChatInterrupted as ChatInterrupted
    from tenuto_client.errors import ContentMismatch as ContentMismatch
    from tenuto_client.errors import Erased as Erased
    from tenuto_client.errors import GaveUpWaiting as GaveUpWaiting
    from tenuto_client.errors import IdempotencyConflict as IdempotencyConflict
    from tenuto_client.errors import InsufficientBalance as InsufficientBalance
    from tenuto_client.errors import InvalidRequest as InvalidRequest
    from tenuto_client.errors import InvalidSetting as InvalidSetting
    from tenuto_client.errors import JobCancelled as JobCancelled
    from tenuto_client.errors import JobError as JobError
    from tenuto_client.errors import JobFailed as JobFailed
    from tenuto_client.errors import JournalError as JournalError
    from tenuto_client.errors import NoModel as NoModel
    from tenuto_client.errors import NotAllowed as NotAllowed
    from tenuto_client.errors import NotConfigured as NotConfigured
    from tenuto_client.errors import NotFound as NotFound
    from tenuto_client.errors import RateLimited as RateLimited
    from tenuto_client.errors import RecoveryRequired as RecoveryRequired
    from tenuto_client.errors import Refused as Refused
    from tenuto_client.errors import ResultMissing as ResultMissing
    from tenuto_client.errors import ServiceFailed as ServiceFailed
    from tenuto_client.errors import ServiceUnreachable as ServiceUnreachable
    from tenuto_client.errors import TenutoError as TenutoError
    from tenuto_client.errors import TooLarge as TooLarge
    from tenuto_client.errors import UnexpectedAnswer as UnexpectedAnswer
    from tenuto_client.errors import UnknownState as UnknownState
    from tenuto_client.errors import WrongMediaType as WrongMediaType
    from tenuto_client.following import SpokenSegment as SpokenSegment
    from tenuto_client.jobs import Job as Job
    from tenuto_client.lines import BatchReport as BatchReport
    from tenuto_client.lines import LineResult as LineResult
    from tenuto_client.records import Artifact as Artifact
    from tenuto_client.records import Balance as Balance
    from tenuto_client.records import Event as Event
    from tenuto_client.records import LedgerEntry as LedgerEntry
    from tenuto_client.records import LiveEvent as LiveEvent
    from tenuto_client.records import Model as Model
    from tenuto_client.records import Operation as Operation
    from tenuto_client.records import Segment as Segment
    from tenuto_client.records import UsageLine as UsageLine
    from tenuto_client.records import Voice as Voice
    from tenuto_client.records import Webhook as Webhook
    from tenuto_client.records import WebhookDelivery as WebhookDelivery
    from tenuto_client.unspoken import UnspokenTextWarning as UnspokenTextWarning

_HOMES = {
    "aio": ("AsyncTenuto",),
    "aio_jobs": ("AsyncJob",),
    "chat": ("ChatChunk", "ChatCompletion"),
    "client": ("Tenuto",),
    "errors": (
        *("AudioError", "AuthenticationFailed", "ChatInterrupted", "ContentMismatch", "Erased"),
        *("GaveUpWaiting", "IdempotencyConflict", "InsufficientBalance", "InvalidRequest", "InvalidSetting"),
        *("JobCancelled", "JobError", "JobFailed", "JournalError", "NoModel", "NotAllowed", "NotConfigured"),
        *("NotFound", "RateLimited", "RecoveryRequired", "Refused", "ResultMissing", "ServiceFailed"),
        *("ServiceUnreachable", "TenutoError", "TooLarge", "UnexpectedAnswer", "UnknownState"),
        "WrongMediaType",
    ),
    "following": ("SpokenSegment",),
    "jobs": ("Job",),
    "lines": ("BatchReport", "LineResult"),
    "records": (
        *("Artifact", "Balance", "Event", "LedgerEntry", "LiveEvent", "Model", "Operation", "Segment"),
        *("UsageLine", "Voice", "Webhook", "WebhookDelivery"),
    ),
    "unspoken": ("UnspokenTextWarning",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = tuple(sorted(_HOME_OF))


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
