"""Settings of the studio."""

from typing import Annotated, Literal, get_args

from msgspec import Struct

from tenuto.rules import Choice, Integer

Registration = Literal["open", "invite", "closed"]


class StudioSettings(Struct, frozen=True):
    """Settings of the studio."""

    registration: Annotated[
        Registration,
        Choice(get_args(Registration)),
        "who may make an account in the studio: `open` everybody, `invite` whoever has a link, `closed` "
        "nobody; see [accounts](accounts.md)",
    ] = "invite"
    session_idle_hours: Annotated[
        int, Integer(1, 8_760), "{range}; a session that is not used for this long expires"
    ] = 168
    session_days: Annotated[int, Integer(1, 365), "{range}; every session expires after this many days"] = 30
