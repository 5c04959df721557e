"""Settings of recognition."""

from typing import Annotated

from msgspec import Struct

from tenuto.rules import Integer


class RecognitionSettings(Struct, frozen=True):
    """Settings of recognition."""

    recognition_slots: Annotated[
        int, Integer(1, 1_000), "{range} recognition jobs at once, over all machines"
    ] = 8
