"""What an operator may set of the diary."""

from typing import Annotated

from msgspec import Struct

from tenuto.rules import Choice, Integer


class DiarySettings(Struct, frozen=True):
    """How the diary begins."""

    diary_ink: Annotated[str, Choice(("blue", "black")), "the ink of the first line"] = "blue"
    diary_pages: Annotated[int, Integer(1, 100), "{range} pages are announced"] = 1
