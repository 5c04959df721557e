"""What a worker's long tasks have freed goes back to the system."""

import subprocess
import sys

SCRIPT = """
from pathlib import Path
from tenuto.worker.duties import BackgroundThread

def mib():
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line]
    return int(line.split()[1]) / 1024

kept = []

def work():
    # 16 MiB, in blocks of a page as SQLite caches them.
    blocks = [bytes([1]) * 4096 for _ in range(16 << 8)]
    kept.append(blocks[-1])

thread = BackgroundThread("audit")
before = mib()
thread.begin(work)
thread.join(30)
left = mib()
thread.begin(lambda: None)
thread.join(30)
print(left - before, mib() - before)
"""


def test_freed_memory_goes_back_before_the_next_work_begins() -> None:
    """Even though one block in use keeps its arena from shrinking; in a process without any other memory to
    reuse."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    left, after = map(float, done.stdout.split())

    assert left > 12
    assert after < 4
