"""Other people's programs that call the service, each run by the interpreter of an environment of its own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from servers.callers import Caller

_ROOT = Path(__file__).parents[2]


def run_program(name: str, caller: Caller, sentence: str, missing: str) -> dict[str, Any]:
    """What `tests/programs/NAME_calls.py` prints when it calls the service as this caller.

    It runs in `build/NAME`, which `make test-all` installs; skips the test with `missing` if that was
    not done.
    """
    interpreter = _ROOT / "build" / name / "bin" / "python"
    if not interpreter.exists():
        pytest.skip(missing)
    address = str(caller.http.base_url).rstrip("/") + "/v1"
    done = subprocess.run(
        [interpreter, _ROOT / "tests" / "programs" / f"{name}_calls.py"],
        env=os.environ | {"ADDRESS": address, "KEY": caller.key, "SENTENCE": sentence},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed
