"""Settings of webhooks."""

from typing import Annotated, Literal, get_args

from msgspec import Struct

from tenuto.config.setting import Amount
from tenuto.rules import Choice

Webhooks = Literal["off", "public", "any"]


class WebhookSettings(Struct, frozen=True):
    """Settings of webhooks."""

    webhooks: Annotated[
        Webhooks,
        Choice(get_args(Webhooks)),
        "whether accounts may have events sent to servers of their own: `off`; `public`, over TLS to servers"
        " of the public internet; `any`, to every server that this one reaches, those of its own network"
        " included; see [webhooks](../webhooks.md)",
    ] = "off"
    low_balance: Annotated[
        str, Amount(), "CNY, as text; whoever has less is sent `balance.low`, if a webhook asks for that"
    ] = "1"
