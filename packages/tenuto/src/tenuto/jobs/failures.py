"""What callers read about a job that did not succeed: a closed set of sentences, one for each cause.

No exception's text is among them: it may hold a path, a secret or the words of others. It is kept with the
attempt as evidence, which operators read. An engine speaks to callers only by raising `InputError`.
"""

from typing import Literal

FailureCode = Literal[
    "engine_failed",
    "engine_crashed",
    "nothing_to_speak",
    "segment_limit",
    "input_unreadable",
    "deadline_exceeded",
    "storage_failed",
]

ENGINE_CODES: dict[str, FailureCode] = {
    "nothing_to_speak": "nothing_to_speak",
    "segment_limit": "segment_limit",
    "input_unreadable": "input_unreadable",
}
"""Codes that an engine may give; any other is shown as engine_failed."""

SENTENCES: dict[FailureCode, str] = {
    "engine_failed": "The model's engine could not do this job; its operator can see why.",
    "engine_crashed": "The process of the model's engine ended or hung during this job.",
    "nothing_to_speak": "The text has nothing that can be spoken in its `lang`.",
    "segment_limit": "The preview has more or larger segments than are kept; submit it without `stream`.",
    "input_unreadable": "A stored input of this job could not be read.",
    "deadline_exceeded": "The job did not end before its deadline of 14 days.",
    "storage_failed": "The result could not be stored.",
}

OUTCOME_UNKNOWN = (
    "A call that may have been charged was made, and its outcome is unknown; the operator decides."
)

UNFORESEEN = "The worker could not go through with the job, because of an error that nobody foresaw."

UNSETTLED = "The result is there and recorded, but could not be settled."

ReleaseReason = Literal[
    "the model's engine did not start",
    "the worker is stopping",
    "the engine's process was ended for another reason than this job",
    "the worker's machine could not do it just now; the job is tried again",
]
"""Why a job that ran was put back into the queue unharmed."""
