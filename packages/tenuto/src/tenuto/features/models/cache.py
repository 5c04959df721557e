"""The cache of weights on this machine: where each one is, and which were verified by a full hash.

Hidden beside the weights are `.verified/NAME.json` (size, mtime and hash of every file, written after a full
hash), `.partial/` (what a pull has downloaded but not yet assembled), `.lock`, and `.compiled/` (what an
engine compiled for this processor). Knows no network.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tenuto.errors import OperatorError, is_of_the_machine
from tenuto.features.models.manifest import Manifest, Weight, shipped

BLOCK_BYTES = 1 << 20
MISSING = "missing"
"""In place of a hash."""


class _Seen(msgspec.Struct, frozen=True):
    """The state of one file when its hash was taken."""

    size_bytes: int
    mtime_ns: int
    sha256: str


class Problem(msgspec.Struct, frozen=True):
    """One file of a weight that is not what the manifest says."""

    name: str  # of the weight
    path: Path
    message: str


def default_cache() -> Path:
    """`TENUTO_CACHE`, else `tenuto` in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache`)."""
    if named := os.environ.get("TENUTO_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tenuto"


def location(cache: Path, name: str) -> Path:
    """Where the file or folder of this weight is once it has been pulled."""
    return cache / name


def partial(cache: Path) -> Path:
    """Where a pull keeps what is not assembled yet; on the same file system as the weights."""
    return cache / ".partial"


def is_verified(cache: Path, name: str, manifest: Manifest | None = None) -> bool:
    """Whether every file has the right hash, by the record of the last full hash: stats files, reads none.

    A change since then shows in the size or mtime; one that alters neither is found only by `verify`.
    """
    weight = (manifest or shipped()).weights_for([name])[0]
    try:
        seen = msgspec.json.decode(_record(cache, name).read_bytes(), type=dict[str, _Seen])
        return all(
            path in seen
            and seen[path].sha256 == file.sha256
            and _stat(location(cache, name) / path) == (seen[path].size_bytes, seen[path].mtime_ns)
            for path, file in weight.contents.items()
        )
    except OSError as error:
        if is_of_the_machine(error):
            raise  # Whether they are there is not known.
        return False
    except msgspec.DecodeError:
        return False


def is_whole(cache: Path, weight: Weight) -> bool:
    """Whether every file is there with the right size; hashes are not checked."""
    try:
        return all(
            _stat(location(cache, weight.name) / path)[0] == file.size_bytes
            for path, file in weight.contents.items()
        )
    except OSError:
        return False


def verify(cache: Path, names: Iterable[str], manifest: Manifest | None = None) -> list[Problem]:
    """Hashes every file of these weights; an empty list: all are right, and `is_verified` agrees."""
    return [
        problem
        for weight in (manifest or shipped()).weights_for(names)
        for problem in problems_of(cache, weight)
    ]


def problems_of(cache: Path, weight: Weight) -> list[Problem]:
    """What is wrong with one weight in the cache, by a full hash."""
    hashes = _hash_files(cache, weight)
    messages = {
        path: "is missing"
        if hashes[path] == MISSING
        else f"has the SHA-256 {hashes[path]}, but the manifest says {file.sha256}"
        for path, file in weight.contents.items()
        if hashes[path] != file.sha256
    }
    folder = location(cache, weight.name)
    return [Problem(weight.name, folder / path, message) for path, message in messages.items()]


def install(cache: Path, weight: Weight, assembled: Path) -> None:
    """Puts an assembled, fsynced and hashed file or folder in its place, replacing what was there."""
    place = location(cache, weight.name)
    if place.is_dir() and not place.is_symlink():
        # A folder cannot be renamed over another that is not empty.
        retired = partial(cache) / f"replaced-{weight.name}"
        shutil.rmtree(retired, ignore_errors=True)
        place.rename(retired)
        assembled.rename(place)
        shutil.rmtree(retired)
    else:
        if assembled.is_dir():
            place.unlink(missing_ok=True)
        assembled.replace(place)
    sync_folder(cache)
    seen = {
        path: _Seen(file.size_bytes, _stat(place / path)[1], file.sha256)
        for path, file in weight.contents.items()
    }
    _write_record(_record(cache, weight.name), msgspec.json.encode(seen))


def remove(cache: Path, name: str) -> None:
    """Deletes a weight and the record of its hash; an engine that has it open keeps it until it ends."""
    _record(cache, name).unlink(missing_ok=True)
    place = location(cache, name)
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


@contextmanager
def only_one(cache: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Locks the cache against other pulls, in this and other processes; the kernel frees it if we die."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        stream = (cache / ".lock").open("w")
    except OSError as error:
        raise OperatorError(
            f"{cache} cannot hold the weights: {error.strerror}; choose another folder with TENUTO_CACHE"
        ) from error
    with stream as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stat(file: Path) -> tuple[int, int]:
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _record(cache: Path, name: str) -> Path:
    return cache / ".verified" / f"{name}.json"


def _write_record(record: Path, content: bytes) -> None:
    record.parent.mkdir(exist_ok=True)
    temporary = record.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(record)


def _hash_files(cache: Path, weight: Weight) -> dict[str, str]:
    """Hashes every file of a weight in full, by path ("missing" where there is none), and records the result.

    The record is kept if all is right and removed otherwise. Size and mtime are taken before the bytes are
    read, so that a file which changes meanwhile does not match its record.
    """
    seen: dict[str, _Seen] = {}
    for path in weight.contents:
        file = location(cache, weight.name) / path
        try:
            size_bytes, mtime_ns = _stat(file)
            seen[path] = _Seen(size_bytes=size_bytes, mtime_ns=mtime_ns, sha256=_sha256(file))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            seen[path] = _Seen(size_bytes=0, mtime_ns=0, sha256=MISSING)
    if all(seen[path].sha256 == file.sha256 for path, file in weight.contents.items()):
        _write_record(_record(cache, weight.name), msgspec.json.encode(seen))
    else:
        _record(cache, weight.name).unlink(missing_ok=True)
    return {path: one.sha256 for path, one in seen.items()}
