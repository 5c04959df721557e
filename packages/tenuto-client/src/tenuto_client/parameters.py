"""The parameters of each kind of job, as in the contract; the service has defaults for all of them.

`Unpack` makes them typed keyword arguments of `create`, for editors and type checkers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict

Language = Literal["zh", "en", "ja", "es", "ar"]


class SpeechParameters(TypedDict, total=False):
    """Text to speech. At most one of `emotion_voice_id`, `emo_vector` and `use_emo_text`."""

    stream: bool
    """Keep every segment for a preview while the job runs: `job.segments()`."""
    voice_id: str
    """A shared, official or own voice; by default the service's original voice."""
    lang: Language
    """The language of the text; default `zh`."""
    duration_factor: float
    """0.5 to 2; larger is slower."""
    emotion_voice_id: str
    """A voice whose emotion, but not its identity, is imitated."""
    emo_alpha: float
    """0 to 1: the strength of the emotion."""
    emo_vector: Sequence[float]
    """Eight numbers from 0 to 1: happy, angry, sad, fear, disgust, low, surprise, calm."""
    use_emo_text: bool
    """Take the emotion from `emo_text`, or from the text."""
    emo_text: str
    """At most 2,048 bytes of UTF-8; needs `use_emo_text`."""
    use_random: bool
    """Pick a random style of the emotion."""
    interval_silence: int
    """0 to 2000 milliseconds of silence between segments."""
    max_text_tokens_per_segment: int
    """20 to 200."""
    text_normalization: bool
    """Expand numbers, dates and symbols into words; default true."""
    do_sample: bool
    """Sample instead of taking the likeliest token; default true."""
    top_p: float
    """0.01 to 1: the probability mass that sampling draws from."""
    top_k: int
    """1 to 100: how many candidates sampling draws from."""
    temperature: float
    """0.1 to 2: the randomness of sampling."""
    repetition_penalty: float
    """0.1 to 20."""


class RecognitionParameters(TypedDict, total=False):
    """Speech to text."""

    language: str
    """1 to 16 characters, for the second engine, which detects the language if `auto`. Default `zh`."""
    context: str
    """At most 20,000 characters, stored with the request; no engine uses it."""
    hotwords: Sequence[str]
    """At most 200 of 1 to 100 characters each, stored with the request; no engine uses them."""
    source_offset_seconds: float
    """0 to 7200; copied to the result; does not shift any times."""


class ImageParameters(TypedDict, total=False):
    """Text to image."""

    width: int
    """256 to 2048 pixels, a multiple of 8."""
    height: int
    """256 to 2048 pixels, a multiple of 8."""
    num_inference_steps: int
    """1 to 100."""
    guidance_scale: float
    """0 to 20."""
    seed: int
    """0 to 9223372036854775807: the same seed and parameters make the same image."""


class ChatParameters(TypedDict, total=False):
    """How a chat model answers."""

    temperature: float
    top_p: float
    max_tokens: int
    max_completion_tokens: int
    stop: str | Sequence[str]
    seed: int
    presence_penalty: float
    frequency_penalty: float


class ChatMessage(TypedDict):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str
