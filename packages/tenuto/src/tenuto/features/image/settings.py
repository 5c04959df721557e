"""Settings of images."""

from typing import Annotated

from msgspec import Struct

from tenuto.rules import Integer


class ImageSettings(Struct, frozen=True):
    """Settings of images."""

    image_slots: Annotated[int, Integer(1, 1_000), "{range} image jobs at once, over all machines"] = 1
