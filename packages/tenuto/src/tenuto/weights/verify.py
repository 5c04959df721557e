"""Hashing weights again, in full: finds what was changed, cut or lost since they were pulled.

Repairs nothing and knows no network: `pull` fetches again whatever does not verify.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tenuto.weights.cache import hash_files, location
from tenuto.weights.manifest import Manifest, Weight, shipped


@dataclass(frozen=True)
class Problem:
    """One file of a weight that is not what the manifest says."""

    name: str  # of the weight
    path: Path
    message: str


def verify(cache: Path, names: Iterable[str], manifest: Manifest | None = None) -> list[Problem]:
    """Hashes every file of these weights; an empty list says that all are right, and is_verified agrees."""
    return [
        problem
        for weight in (manifest or shipped()).weights_for(names)
        for problem in problems_of(cache, weight)
    ]


def problems_of(cache: Path, weight: Weight) -> list[Problem]:
    """What is wrong with one weight in the cache, by a full hash."""
    found = hash_files(cache, weight)
    return [
        Problem(weight.name, location(cache, weight.name) / path, _message(file.sha256, found[path]))
        for path, file in weight.contents.items()
        if found[path] != file.sha256
    ]


def _message(expected: str, found: str) -> str:
    if found == "missing":
        return "is missing"
    return f"has the SHA-256 {found}, but the manifest says {expected}"
