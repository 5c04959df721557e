"""How many jobs of each kind run at once."""

from typing import Annotated

from msgspec import Struct

from tenuto.rules import Integer


class PlainSettings(Struct, frozen=True):
    """How many jobs of each kind run at once."""

    speech_slots: Annotated[int, Integer(1, 1_000), "{range} speech jobs at once"] = 1
    recognition_slots: Annotated[int, Integer(1, 1_000), "{range} recognition jobs at once"] = 8
    image_slots: Annotated[int, Integer(1, 1_000), "{range} image jobs at once"] = 1
