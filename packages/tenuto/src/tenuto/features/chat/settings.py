"""Settings of chats."""

from typing import Annotated

from msgspec import Struct

from tenuto.rules import Integer


class ChatSettings(Struct, frozen=True):
    """Settings of chats."""

    chat_body_kib: Annotated[
        int, Integer(1, 65_536), "{range} KiB, the largest body of a chat; beyond: 413"
    ] = 4096
    queued_chats: Annotated[
        int, Integer(0, 100_000), "{range} chats that wait for one model; 0: no limit"
    ] = 16
    chat_timeout_s: Annotated[
        int, Integer(1, 86_400), "{range}; a chat that is not answered by then, or not read, is given up"
    ] = 600
