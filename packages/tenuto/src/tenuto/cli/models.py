"""`tenuto admin models` and `models pull`: the models of this installation, and their weights."""

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tenuto.cli.common import say, table, tell
from tenuto.cli.options import add_location, location_of
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

if TYPE_CHECKING:
    from tenuto.config import Settings
    from tenuto.engines.registry import EngineEntry


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
    for command, run in {every: _list, verify: _verify}.items():
        add_location(command)
        command.set_defaults(run=run)


def _list(options: argparse.Namespace, console: Console) -> int:
    """List the models, and whether their weights are here; the fake ones if `engines` names them."""
    from tenuto.engines.registry import ENTRIES, weights_of
    from tenuto.weights.cache import is_verified

    settings = location_of(options).settings()
    cache = settings.cache
    rows = []
    for entry in _entries(settings):
        if entry in ENTRIES and entry.fake != (settings.engines == "fake"):
            continue
        needed = weights_of(entry)
        missing = [name for name in needed if not is_verified(cache, name)]
        state = "missing: tenuto models pull" if missing else "verified" if needed else "none needed"
        rows.append((entry.model, entry.kind, entry.revision, entry.licence, state))
    table(("model", "kind", "revision", "licence", "weights"), rows)
    return 0


def _verify(options: argparse.Namespace, console: Console) -> int:
    """Hash the weights again, in full; fail if one is not what it should be."""
    from tenuto.weights.cache import verify

    settings = location_of(options).settings()
    problems = verify(settings.cache, _needed_weights(options.names, settings))
    for problem in problems:
        say(f"{problem.path}: {problem.message}")
    if problems:
        tell("to repair them: tenuto models pull")
        return 1
    say("all weights match the manifest")
    return 0


def _pull(options: argparse.Namespace, console: Console) -> int:
    """Bring weights into the cache and verify them; what is there already stays."""
    from tenuto.weights.pull import pull

    settings = location_of(options).settings()
    with _Progress() as progress:
        folders = pull(_needed_weights(options.names, settings), settings.cache, progress.on_progress)
    for folder in folders:
        say(str(folder))
    return 0


def _needed_weights(names: Iterable[str], settings: "Settings") -> list[str]:
    """The weights behind names of models or weights."""
    from tenuto.config import ModelSettings
    from tenuto.engines.registry import weights_of
    from tenuto.weights.manifest import shipped

    chosen = list(names)
    if not chosen:
        known = _entries(settings)
        enabled = [entry for entry in known if settings.models.get(entry.model, ModelSettings()).enabled]
        return sorted({name for entry in enabled for name in entry.weights})
    by_model = {entry.model: weights_of(entry) for entry in _entries(settings)}
    wanted = [weight for name in chosen for weight in by_model.get(name, (name,))]
    shipped().weights_for(wanted)
    return wanted


def _entries(settings: "Settings") -> "list[EngineEntry]":
    """All of Tenuto's own models, the fakes among them, and those that the operator added."""
    from tenuto.catalog.rules import models
    from tenuto.engines.registry import ENTRIES

    added = [model.entry for name, model in models(settings).items() if name in settings.models]
    return [*ENTRIES, *(entry for entry in added if entry not in ENTRIES)]


class _Progress:
    """A bar per weight on a terminal, a line per stage elsewhere."""

    def __init__(self) -> None:
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._reported: set[tuple[str, str]] = set()

    def __enter__(self) -> "_Progress":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

            self._bars = Progress(
                TextColumn("{task.description:24}"),
                BarColumn(),
                DownloadColumn(),
                TextColumn("{task.fields[stage]}"),
                console=Console(stderr=True),
            )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def on_progress(self, name: str, done_bytes: int, total_bytes: int, stage: str) -> None:
        """Called by the pull, one thread at a time."""
        if self._bars is None:
            if (name, stage) not in self._reported:
                self._reported.add((name, stage))
                sys.stderr.write(f"{name}: {stage} ({total_bytes / 1e6:.1f} MB)\n")
                sys.stderr.flush()
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total_bytes, stage=stage)
        self._bars.update(self._tasks[name], completed=done_bytes, total=total_bytes, stage=stage)
