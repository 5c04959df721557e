"""`tenuto admin models` and `models pull`: the models of this installation, and their weights."""

import argparse
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tenuto.command.common import json_line, say, table, tell
from tenuto.command.options import add_location, location_of
from tenuto.errors import OperatorError
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t
from tenuto_engine import processor

if TYPE_CHECKING:
    from tenuto.config import Settings
    from tenuto.db.database import Database
    from tenuto.features.models.manifest import Manifest
    from tenuto.host.registry import EngineEntry

LINE_EVERY_S = 10.0
"""The interval between progress lines without a terminal."""


def add(parser: Parser, name: str) -> None:
    """The commands and their options; `pull` is also a command of callers."""
    if name == "pull":
        parser.add_argument(
            "names",
            nargs="*",
            metavar="NAME",
            help=t("models or weights (default: all that the enabled models need)"),
        )
        add_location(parser)
        parser.set_defaults(run=_pull)
        return
    every = parser.add_verb("list", "List the models, and whether their weights are here.", "ls")
    verify = parser.add_verb("verify", "Hash the weights again, and fail if any are damaged.")
    verify.add_argument(
        "names", nargs="*", metavar="NAME", help=t("models or weights (default: all that are needed)")
    )
    every.add_json()
    for command, run in {every: _list, verify: _verify}.items():
        add_location(command)
        command.set_defaults(run=run)


def _list(options: argparse.Namespace, console: Console) -> int:
    """List the models, with whether their weights are here, then those that can be added; with the setting
    `engines` = fake, the fake ones.
    """
    from tenuto.command.common import readable_size
    from tenuto.features.models.additions import additions, manifest_of
    from tenuto.features.models.cache import is_verified
    from tenuto.host.registry import ENTRIES

    settings = location_of(options).settings()
    manifest = manifest_of(settings)
    licences = {one.model: one.licence.name for one in additions().values()}
    rows: list[tuple[str | None, ...]] = []
    for entry in _entries(settings):
        if entry in ENTRIES and entry.fake != (settings.engines == "fake"):
            continue
        needed = _weights_of(entry, settings)
        missing = [name for name in needed if not is_verified(settings.cache, name, manifest)]
        state = "missing: tenuto models pull" if missing else "verified" if needed else "none needed"
        licence = licences.get(entry.model, entry.licence) if entry.options.get("path") else entry.licence
        rows.append((entry.model, entry.kind, entry.revision, licence, state))
    for one in additions().values():
        if one.model not in [row[0] for row in rows] and settings.engines != "fake":
            state = f"{readable_size(one.size_bytes)}: tenuto admin models add {one.name}"
            rows.append((one.model, one.kind, None, one.licence.name, state))
    headings = ("model", "kind", "revision", "licence", "weights")
    if console.as_json:
        say(json_line([dict(zip(headings, row, strict=True)) for row in rows]))
    else:
        table(headings, rows)
    return 0


def _verify(options: argparse.Namespace, console: Console) -> int:
    """Hash all the weights again; fail if any is not what it should be."""
    from tenuto.features.models.additions import manifest_of
    from tenuto.features.models.cache import verify

    settings = location_of(options).settings()
    manifest = manifest_of(settings)
    problems = verify(settings.cache, _needed_weights(options.names, settings, manifest), manifest)
    for problem in problems:
        say(f"{problem.path}: {problem.message}")
    if problems:
        tell("to repair them: tenuto models pull")
        return 1
    say("all weights match the manifest")
    return 0


def _pull(options: argparse.Namespace, console: Console) -> int:
    """Download weights into the cache and verify them; what is there already stays."""
    from tenuto.features.models.additions import manifest_of

    settings = location_of(options).settings()
    manifest = manifest_of(settings)
    for folder in bring(_needed_weights(options.names, settings, manifest), settings.cache, manifest):
        say(str(folder))
    return 0


def pull_missing(settings: "Settings", database: "Database") -> None:
    """Download what the models lack, before `serve` starts; prints nothing if nothing is missing."""
    from tenuto.features.models.manifest import shipped
    from tenuto.features.models.pull import WeightsUnavailable
    from tenuto.host.registry import engines_of, weights_of
    from tenuto.kind.model import models

    if settings.pull == "never":
        return
    try:
        entries = [model.entry for model in models(settings).values()]
        usable = [one for one in entries if not any(processor.fault(e.processors) for e in engines_of(one))]
        bring({name for entry in usable for name in weights_of(entry)}, settings.cache, shipped())
    except WeightsUnavailable as error:
        raise OperatorError(
            f"{error.summary}. Check the network and HTTPS_PROXY, and run this again; or run"
            f" `tenuto models pull` on a machine with a network and copy its cache to {settings.cache};"
            " or start without the weights: --pull never"
        ) from error


def bring(names: Iterable[str], cache: Path, manifest: "Manifest") -> list[Path]:
    """Print what is downloaded and from where, and download it with a single progress display."""
    from tenuto.features.models.cache import is_verified, is_whole
    from tenuto.features.models.pull import described, pull

    weights = [
        weight
        for weight in manifest.weights_for(sorted(names))
        if not is_verified(cache, weight.name, manifest)
    ]
    absent = {
        weight.name: manifest.download_bytes(weight) for weight in weights if not is_whole(cache, weight)
    }
    heading = [f"verifying the weights in {cache}"] if weights else []
    if download_bytes := sum(absent.values()):
        heading = [f"downloading {_mb(download_bytes)} of weights into {cache}, once:"]
    for weight in weights:
        if absent.get(weight.name):
            where = described(weight, weight.source[0], manifest)
            heading.append(f"  {weight.name}  {_mb(absent[weight.name])}  {where}")
    with _ending_in_order(), _Progress(heading, absent) as progress:
        return pull(sorted(names), cache, progress.on_progress, manifest=manifest)


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the pull as Ctrl-C does: pip and npm would survive us otherwise."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    # One that is ignored, as by nohup, or handled stays so.
    ours = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _needed_weights(names: Iterable[str], settings: "Settings", manifest: "Manifest") -> list[str]:
    """The weights that these names of models or weights stand for."""
    from tenuto.config import ModelSettings

    chosen = list(names)
    known = _entries(settings)
    by_model = {entry.model: _weights_of(entry, settings) for entry in known}
    if not chosen:
        enabled = [entry for entry in known if settings.models.get(entry.model, ModelSettings()).enabled]
        return sorted({name for entry in enabled for name in _weights_of(entry, settings)})
    wanted = [weight for name in chosen for weight in by_model.get(name, (name,))]
    manifest.weights_for(wanted)
    return wanted


def _weights_of(entry: "EngineEntry", settings: "Settings") -> tuple[str, ...]:
    """The weights that its engine names, and those of an added model, which its table names by path."""
    from tenuto.features.models.additions import additions, pin_of, table_file
    from tenuto.host.registry import weights_of

    pinned = [
        weight.name
        for one in additions().values()
        if one.model == entry.model and table_file(settings, one).exists()
        for weight in pin_of(settings, one) or ()
    ]
    return (*weights_of(entry), *pinned)


def _entries(settings: "Settings") -> "list[EngineEntry]":
    """All of Tenuto's own models, including the fakes, and those that the operator added."""
    from tenuto.host.registry import ENTRIES
    from tenuto.kind.model import models

    added = [model.entry for name, model in models(settings).items() if name in settings.models]
    return list({entry.model: entry for entry in (*ENTRIES, *added)}.values())


class _Progress:
    """One display for all downloads: a bar on a terminal, elsewhere a line every ten seconds."""

    def __init__(self, heading: Sequence[str], expected: Mapping[str, int]) -> None:
        self._heading = heading  # printed once it is known that the download can begin
        self._total = dict(expected)
        self._done = dict.fromkeys(expected, 0)
        self._began_s = self._shown_s = time.monotonic()
        self._is_waiting = False
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def _begin(self) -> None:
        for line in self._heading:
            tell(line)
        self._heading = ()
        if sys.stderr.isatty() and self._total:
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.DownloadColumn(),
                progress.TransferSpeedColumn(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._bar.add_task("downloading", total=sum(self._total.values()))
            self._bar.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if kind is not None and not issubclass(kind, Exception):
            tell("stopped; what has arrived is kept, and the same command continues from there")

    def on_progress(self, name: str, done_bytes: int, total_bytes: int, stage: str) -> None:
        """Called by `pull`, by one thread at a time."""
        if self._heading:
            self._begin()
        if stage == "waiting" and not self._is_waiting:
            self._is_waiting = True
            tell("another command is downloading into the same cache; waiting for it")
        if name not in self._total or stage in ("waiting", "checking"):
            return
        if stage == "downloading":
            self._total[name] = total_bytes
        self._done[name] = done_bytes if stage == "downloading" else self._total[name]
        done, total = sum(self._done.values()), sum(self._total.values())
        if self._bar is not None:
            what = "downloading" if done < total else "unpacking"
            self._bar.update(0, description=what, completed=done, total=total)
        elif time.monotonic() - self._shown_s >= LINE_EVERY_S:
            self._shown_s = time.monotonic()
            rate = done / (self._shown_s - self._began_s)
            left = f", {(total - done) / rate:.0f} s left" if rate else ""
            tell(f"downloaded {_mb(done)} of {_mb(total)}, {_mb(rate)}/s{left}")


def _mb(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:.1f} MB"
