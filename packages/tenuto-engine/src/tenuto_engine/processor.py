"""Whether this machine's processor can run an engine's libraries. Knows no engine, and loads nothing."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping, Sequence

_CPUINFO = "/proc/cpuinfo"


def fault(processors: Mapping[str, Sequence[str]], *, machine: str = "", cpuinfo: str = "") -> str:
    """Why libraries that are built for these machines, with these instructions, cannot run; "" if they can.

    `processors` maps machines, as `platform.machine()` names them, to flags of /proc/cpuinfo; empty: any
    machine. Instructions that cannot be read are taken to be there.
    """
    machine = machine or platform.machine()
    if processors and machine not in processors:
        return f"its libraries are built for {' and '.join(processors)}, and this machine is {machine}"
    present = _flags(cpuinfo or _read())
    lacking = [flag.upper() for flag in processors.get(machine, ()) if present and flag not in present]
    names = " and ".join(lacking)
    return f"its libraries need a processor with {names}, which this machine's lacks" if lacking else ""


def flags() -> list[str]:
    """Of this machine's processor, as /proc/cpuinfo names them, sorted; empty if they cannot be read."""
    return sorted(_flags(_read()))


@functools.cache
def _read() -> str:
    try:
        with open(_CPUINFO, encoding="utf-8", errors="replace") as file:  # noqa: PTH123, as in __main__
            return file.read()
    except OSError:
        return ""


def _flags(cpuinfo: str) -> set[str]:
    """Of the first processor; x86 calls them flags, ARM features."""
    for line in cpuinfo.splitlines():
        name, _, flags = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(flags.split())
    return set()
