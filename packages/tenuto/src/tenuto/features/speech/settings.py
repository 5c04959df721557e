"""Settings of speech."""

from typing import Annotated

from msgspec import Struct

from tenuto.rules import Integer


class SpeechSettings(Struct, frozen=True):
    """Settings of speech."""

    speech_slots: Annotated[int, Integer(1, 1_000), "{range} speech jobs at once, over all machines"] = 1
