"""`python -m lab.fuzz.guided TARGET --minutes 10`: one target, led by what of our code its inputs reach.

Needs atheris (Apache-2.0, a wheel of 35 MB), which nothing else here does: `pip install atheris` first. What
it learns is kept in a folder that it names, and grows from there the next time.
"""

import argparse
import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

WATCHED = [
    "tenuto.media",
    "tenuto.strict_json",
    "tenuto.kind",
    "tenuto.features.speech",
    "tenuto.features.recognition",
    "tenuto.features.image",
    "tenuto.features.voices.rules",
]
WATCHED += [
    "tenuto.features.chat.upstream",
    "tenuto.api",
    "tenuto.features.http_guard",
    "tenuto.host.messages",
]
WATCHED += ["tenuto_engine.wire"]


def main() -> int:
    """The exit code: atheris' own, or 2 when it is not there."""
    options = argparse.ArgumentParser(prog="python -m lab.fuzz.guided")
    options.add_argument("target")
    options.add_argument("--minutes", type=float, default=1.0)
    asked = options.parse_args()
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        print("atheris is not installed; `pip install atheris`, or use `python -m lab.fuzz`", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=WATCHED):
        targets = importlib.import_module("fuzz.targets")
    if asked.target not in targets.TARGETS:
        print(f"there is no target {asked.target}; there are {', '.join(targets.TARGETS)}", file=sys.stderr)
        return 2
    target, kinds = targets.TARGETS[asked.target]
    folder = Path(tempfile.gettempdir()) / f"tenuto-fuzz-{asked.target}"
    folder.mkdir(exist_ok=True)
    for path in (path for kind in kinds for path in (targets.CORPORA / kind).glob("*")):
        shutil.copy(path, folder)
    print(f"grows in {folder}")
    atheris.Setup([sys.argv[0], f"-max_total_time={round(asked.minutes * 60)}", str(folder)], target)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
