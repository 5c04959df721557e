"""Builds the wheels and source archives of all distributions of this repository: `make dist`.

Each is built from a copy of its own folder, with the licence beside it, so that nothing in the checkout
changes and nothing gets in that an earlier build has left. The wheel is built from the source archive, which
proves that one. For one commit the files are the same bytes, whenever and wherever they are built.
"""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STUDIO = Path("packages/tenuto/src/tenuto/features/studio/static")
LEFT_OUT = shutil.ignore_patterns("*.egg-info", "build", "__pycache__")


def main() -> None:
    """Build them into one folder, which then holds nothing else."""
    parser = argparse.ArgumentParser(description="Build the wheels and source archives of all distributions.")
    parser.add_argument("--into", type=Path, metavar="FOLDER", required=True, help="emptied first")
    parser.add_argument("distributions", type=Path, nargs="+", metavar="DISTRIBUTION", help="its folder")
    options = parser.parse_args()
    if not (ROOT / STUDIO / "index.html").is_file():
        sys.exit("the service's wheel contains the studio: install Node.js 20.19 or newer, and run it again")
    shutil.rmtree(options.into, ignore_errors=True)
    build(options.distributions, options.into)


def build(distributions: Iterable[Path], folder: Path) -> None:
    """Build these folders' distributions into `folder`, two at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as copies, ThreadPoolExecutor(2) as two:
        list(two.map(lambda source: _build(source, Path(copies) / source.name, folder), distributions))


def _build(source: Path, copy: Path, folder: Path) -> None:
    shutil.copytree(source, copy, ignore=LEFT_OUT)
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    made = copy / "made"
    uv = [str(Path(sys.executable).with_name("uv")), "build", "--quiet", "--no-build-isolation"]
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _commit_time()
    subprocess.run(
        [*uv, "--python", sys.executable, "--out-dir", str(made), str(copy)],
        env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
        check=True,
    )
    for archive in made.glob("*.tar.gz"):
        _repack(archive, int(epoch))
    for file in (*made.glob("*.whl"), *made.glob("*.tar.gz")):
        shutil.move(file, folder / file.name)


def _commit_time() -> str:
    log = ["git", "log", "-1", "--format=%ct"]
    answer = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "315532800"


def _repack(archive: Path, epoch: int) -> None:
    """Take times, owners and order of files out of a source archive: setuptools leaves those of the build."""
    with tarfile.open(archive) as old:
        files = [(one, old.extractfile(one)) for one in sorted(old, key=lambda one: one.name)]
        with (
            archive.with_suffix(".new").open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed,
            tarfile.open(fileobj=packed, mode="w") as new,
        ):
            for one, content in files:
                one.mtime, one.uid, one.gid, one.uname, one.gname, one.pax_headers = epoch, 0, 0, "", "", {}
                new.addfile(one, content)
    archive.with_suffix(".new").replace(archive)


if __name__ == "__main__":
    main()
