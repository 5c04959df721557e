"""An ffmpeg for tests of the setting that names one: that of `make test`, or the system's."""

import shutil
from pathlib import Path

import pytest

BINARIES = Path(__file__).parents[2] / "build" / "ffmpeg" / "imageio_ffmpeg" / "binaries"


def ffmpeg() -> str:
    """Its path. Skips the test if there is none."""
    bundled = next(iter(sorted(BINARIES.glob("ffmpeg-*"))), None)
    if bundled is not None:
        bundled.chmod(0o755)
        return str(bundled)
    installed = shutil.which("ffmpeg")
    if installed is None:
        pytest.skip(
            "needs an ffmpeg, which `make test` installs into build/ffmpeg where there is a wheel of it"
        )
    return installed
