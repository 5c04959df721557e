"""What a worker's long tasks have freed goes back to the system."""

from pathlib import Path

from tenuto.worker.housekeeping import BackgroundThread

BLOCK_BYTES = 4096
BLOCKS = 16 << 8
"""16 MiB, in blocks of a page as SQLite caches them."""
WAIT_S = 30.0


def anonymous_mib() -> float:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line]
    return int(line.split()[1]) / 1024


def fail(error: Exception) -> None:
    raise error


def nothing() -> None:
    pass


def test_freed_memory_goes_back_before_the_next_work_begins() -> None:
    """Even though one block in use keeps its arena from shrinking."""
    kept: list[bytes] = []

    def work() -> None:
        blocks = [bytes([1]) * BLOCK_BYTES for _ in range(BLOCKS)]
        kept.append(blocks[-1])

    thread = BackgroundThread("audit", fail)
    before = anonymous_mib()
    thread.begin(work)
    thread.join(WAIT_S)
    left = anonymous_mib() - before
    thread.begin(nothing)
    thread.join(WAIT_S)

    assert left > 12
    assert anonymous_mib() - before < 4
