"""Settings of OpenAI's routes."""

from typing import Annotated, Literal, get_args

from msgspec import Struct

from tenuto.rules import Choice, Integer

Switch = Literal["on", "off"]


class OpenAISettings(Struct, frozen=True):
    """Settings of OpenAI's routes."""

    openai_routes: Annotated[
        Switch,
        Choice(get_args(Switch)),
        "`on`: programs written for OpenAI's API may call the service (`/v1/audio/…`, `/v1/images/…`,"
        " `/v1/embeddings`, `/v1/responses`); `off`: those paths are not there",
    ] = "on"
    openai_wait_s: Annotated[
        int,
        Integer(1, 3_600),
        "{range}; how long such a request waits for its job before it is answered 503 and sent again",
    ] = 290
