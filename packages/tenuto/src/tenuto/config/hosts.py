"""What an operator says of where a model's engine runs, in the file's table `[models."NAME"]`."""

import re
from dataclasses import dataclass
from typing import Any

HOSTS = ("child", "ray")
HOST_FIELDS = ("host", "ray_address", "ray_cpus", "ray_gpus", "ray_wait_s")
MAX_RESOURCES = 1024.0
MAX_WAIT_S = 86_400

# Ray's own client protocol (ray://) is another thing: it has no actors' lives tied to its end.
_ADDRESS = re.compile(r"auto|[A-Za-z0-9.\[\]:_-]+:[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class RaySettings:
    """A place in a Ray pool for an engine."""

    address: str = "auto"
    """The head's address, `host:port`; auto: that of the node that runs on this machine."""
    cpus: float = 1.0
    gpus: float = 0.0
    """What the pool sets aside for the engine."""
    wait_s: int = 60
    """How long a load may wait until the pool has that free."""


def read_host(where: str, table: dict[str, Any], faults: list[str]) -> RaySettings | None:
    """The place in a pool, None for a child process; what is wrong is added to the faults."""
    host = table.get("host", "child")
    if host not in HOSTS:
        faults.append(f"{where}.host: {host!r} is none of {', '.join(HOSTS)}")
    if host != "ray":
        faults.extend(
            f'{where}.{key}: means nothing without host = "ray"' for key in HOST_FIELDS[1:] if key in table
        )
        return None
    address = table.get("ray_address", "auto")
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        faults.append(f"{where}.ray_address: {address!r} is neither auto nor such as 10.0.0.1:6379")
        address = "auto"
    for key in ("ray_cpus", "ray_gpus"):
        value = table.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_RESOURCES:
            faults.append(f"{where}.{key}: {value!r} is not a number from 0 to {MAX_RESOURCES:g}")
    wait_s = table.get("ray_wait_s", 60)
    if type(wait_s) is not int or not 1 <= wait_s <= MAX_WAIT_S:
        faults.append(f"{where}.ray_wait_s: {wait_s!r} is not an integer from 1 to {MAX_WAIT_S}")
    if faults:
        return None
    return RaySettings(address, float(table.get("ray_cpus", 1)), float(table.get("ray_gpus", 0)), wait_s)
