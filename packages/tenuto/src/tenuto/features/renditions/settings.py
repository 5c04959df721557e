"""Settings of renditions."""

from typing import Annotated

from msgspec import Struct

from tenuto.config.addresses import NONE
from tenuto.rules import Form, Integer


def _is_program(text: str) -> bool:
    """Whether the text is the absolute path of a program, which need not exist; or the word none."""
    return text == NONE or (text.startswith("/") and not text.endswith("/") and text.isprintable())


class RenditionSettings(Struct, frozen=True):
    """Settings of renditions."""

    scratch_mib: Annotated[
        int, Integer(1, 1 << 40), "{range} MiB of renditions per account in a process while they are read"
    ] = 2048
    ffmpeg: Annotated[
        str,
        Form("the absolute path of a program, or none", _is_program),
        "the path of an ffmpeg, such as /usr/bin/ffmpeg: such programs may then send M4A, MP4, WebM, WMA, AMR"
        " and AAC, too, and ask for `aac`; it runs without any rights; `none`: they are refused",
    ] = NONE
