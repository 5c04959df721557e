"""The Hugging Face hub: what a repository holds at one commit, and the weight pinned to it.

The hashes in a manifest that ships come from its author. A weight that an operator adds is pinned on the
operator's machine instead: the hub is asked once for the commit, the sizes and the hashes of large files;
small files are read and hashed. Every later pull must match. Sends no request unless it is called.
"""

import hashlib
import urllib.parse
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import msgspec

from tenuto.errors import OperatorError
from tenuto.features.models import downloads
from tenuto.features.models.manifest import Commit, File, FilePath, HubSource, Sha256, Size, Weight

LISTING_LIMIT_BYTES = 16 << 20
SMALL_LIMIT_BYTES = 64 << 20
"""The most bytes of a file that the hub keeps outside its store of large files."""


class HubRefused(OperatorError):
    """The hub cannot be reached or lacks what was expected; the message says which, and what to do."""


class _Large(msgspec.Struct, frozen=True):
    sha256: Sha256
    size: Size


class _Entry(msgspec.Struct, frozen=True):
    rfilename: str
    size: Size = 0
    blob_id: str = msgspec.field(default="", name="blobId")
    lfs: _Large | None = None


class _Answer(msgspec.Struct, frozen=True):
    """What we read of `/api/models/REPOSITORY/revision/REVISION?blobs=true`."""

    sha: Commit
    siblings: tuple[_Entry, ...]


class Listing(msgspec.Struct, frozen=True):
    """The wanted files of a repository at one commit; none has been downloaded."""

    repository: str
    commit: str
    entries: tuple[_Entry, ...]

    @property
    def size_bytes(self) -> int:
        return sum(entry.lfs.size if entry.lfs else entry.size for entry in self.entries)


def listing(repository: str, revision: str, patterns: Sequence[str]) -> Listing:
    """Ask the hub for the files that match the patterns (like a shell's, but `*` also matches a slash).

    `revision` is a branch, a tag or a commit. Raises HubRefused.
    """
    where = f"{repository}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
    content = _read(lambda: f"{downloads.hub_endpoint()}/api/models/{where}", LISTING_LIMIT_BYTES)
    try:
        answer = msgspec.json.decode(content, type=_Answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HubRefused(f"the hub's answer for {repository} cannot be read: {error}") from error
    names = [entry.rfilename for entry in answer.siblings]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise HubRefused(f"{repository} has no file {pattern} at {answer.sha[:12]}; it may have moved")
    wanted = tuple(
        entry
        for entry in answer.siblings
        if any(fnmatchcase(entry.rfilename, pattern) for pattern in patterns)
    )
    for entry in wanted:
        try:
            msgspec.convert(entry.rfilename, FilePath)
        except msgspec.ValidationError as error:
            raise HubRefused(f"{repository} has a file whose name cannot be a path here") from error
    return Listing(repository, answer.sha, wanted)


def pinned(name: str, licence: str, listed: Listing, *, is_file: bool) -> Weight:
    """The weight of these files, each with its hash; small ones are read to hash them. Raises HubRefused.

    `is_file`: the weight is the only file itself, not a folder with it.
    """
    source = HubSource(repository=listed.repository, revision=listed.commit, path="{file}")
    files = {entry.rfilename: _file(entry, source) for entry in listed.entries}
    path, file = None, None
    if is_file:
        ((path, file),) = files.items()
    return Weight(
        name=name,
        licence=licence,
        upstream=listed.repository,
        revision=listed.commit,
        source=(source if path is None else msgspec.structs.replace(source, path=path),),
        file=file,
        files={} if is_file else files,
    )


def _file(entry: _Entry, source: HubSource) -> File:
    if entry.lfs is not None:
        return File(size_bytes=entry.lfs.size, sha256=entry.lfs.sha256)
    content = _read(lambda: downloads.hub_address(source, entry.rfilename), SMALL_LIMIT_BYTES)
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    if entry.blob_id and blob != entry.blob_id:
        raise HubRefused(f"{entry.rfilename} is not what the hub lists: its git hash is {blob}")
    return File(size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _read(address: Callable[[], str], limit_bytes: int) -> bytes:
    try:
        return downloads.read(address(), limit_bytes)
    except downloads.SourceFailed as error:
        text = str(error)
        if text.startswith(downloads.NO_CONNECTION):
            raise HubRefused(
                f"the hub cannot be reached: {text.removeprefix(downloads.NO_CONNECTION)}; check the network"
                " and HTTPS_PROXY, or name a mirror with HF_ENDPOINT"
            ) from error
        raise HubRefused(f"the hub refused: {text}") from error
