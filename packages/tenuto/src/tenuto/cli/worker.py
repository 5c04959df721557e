"""What `tenuto worker` says before it works: which models it can run here, which not, and why."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tenuto.cli.common import json_line, say, table
from tenuto.config import Settings

if TYPE_CHECKING:
    from tenuto.worker.abilities import Ability


def teller(settings: Settings, *, as_json: bool) -> "Callable[[Sequence[Ability]], None]":
    """A function that tells the abilities of a worker: a table, or one line of JSON."""

    def tell(abilities: "Sequence[Ability]") -> None:
        if as_json:
            models = [asdict(ability) for ability in abilities]
            say(json_line({"engine_memory_mib": settings.engine_memory_mib, "models": models}))
            return
        table(
            ("model", "lane", "slots", "host", "MiB", "runs here"),
            (
                (
                    ability.model,
                    ability.lane,
                    ability.slots,
                    ability.host,
                    ability.memory_mib or "?",
                    "yes" if ability.reason is None else f"no: {ability.reason}",
                )
                for ability in abilities
            ),
        )
        if settings.engine_memory_mib:
            say(f"engines may take {settings.engine_memory_mib} MiB together")

    return tell
