"""How much of this machine's memory a process and what it started take. Knows neither hosts nor engines."""

import contextlib
import os
from pathlib import Path

PROC = Path("/proc")


def resident_bytes(pid: int) -> int | None:
    """Resident bytes of the process and its descendants; None where that cannot be read (no Linux, gone)."""
    pages = 0
    found = [pid]
    try:
        for each in found:
            with contextlib.suppress(OSError) if each != pid else contextlib.nullcontext():
                pages += int((PROC / str(each) / "statm").read_text().split()[1])
                for task in (PROC / str(each) / "task").iterdir():
                    found += [int(child) for child in (task / "children").read_text().split()]
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
