"""What a large blob in a bucket takes of memory."""

import os
import subprocess
import sys

from servers.seaweedfs import start_seaweedfs

# Writes and reads so many MiB and says by how many its memory has grown at most.
GROWTH = """
import os, sys
from pathlib import Path
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import S3Location, credentials_from
from tenuto.ids import Ids
def peak():
    # Not ru_maxrss, which counts what our parent had before we became another program.
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) >> 10
place = S3Location(bucket=sys.argv[1], prefix=sys.argv[2], endpoint=sys.argv[3],
                credentials=credentials_from(os.environ))
blobs, ids = S3Blobs(place), Ids(clock=lambda: 1_700_000_000_000)
blobs.write(ids.new("blob"), b"warm")
before = peak()
record = blobs.write(ids.new("blob"), (os.urandom(1 << 20) for _ in range(int(sys.argv[4]))))
written = peak() - before
for block in blobs.read(record):
    pass
print(written, peak() - before)
"""


def test_memory_is_bounded() -> None:
    """Of 96 MiB a write holds three parts, and a read two windows, whatever the allocator adds (P14)."""
    seaweed = start_seaweedfs()
    told = subprocess.run(
        [sys.executable, "-c", GROWTH, "measured", "memory", seaweed.endpoint, "96"],
        env=os.environ | seaweed.variables,
        capture_output=True,
        text=True,
    )
    seaweed.stop()

    assert 0 == told.returncode, told.stderr
    written_mib, read_mib = map(int, told.stdout.split())
    assert written_mib < 64
    assert read_mib < 80
