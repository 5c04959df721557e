"""`tenuto models`: which models this installation has, and bringing their weights."""

import sys
from collections.abc import Iterable
from typing import Any

from cyclopts import App

from tenuto.catalog.rules import models
from tenuto.cli.adapters import list_adapters
from tenuto.cli.common import HERE, Place, say, table, tell
from tenuto.config import ModelSettings, Settings
from tenuto.engines.registry import ENTRIES, EngineEntry, weights_of
from tenuto.weights import cache as weights_cache
from tenuto.weights.manifest import shipped

app = App(name="models", help="Models and their weights.")
app.command(list_adapters, name="adapters")


@app.command(name="list")
def list_models(*, place: Place = HERE) -> None:
    """List the models, and whether their weights are here; the fake ones where `engines` names them."""
    settings = place.settings()
    cache = settings.cache
    rows = []
    for entry in _entries(settings):
        if entry in ENTRIES and entry.fake != (settings.engines == "fake"):
            continue
        needed = weights_of(entry)
        missing = [name for name in needed if not weights_cache.is_verified(cache, name)]
        state = "missing: tenuto models pull" if missing else "verified" if needed else "none needed"
        rows.append((entry.model, entry.kind, entry.revision, entry.licence, state))
    table(("model", "kind", "revision", "licence", "weights"), rows)


@app.command(name="pull")
def pull_weights(*names: str, place: Place = HERE) -> None:
    """Bring weights into the cache and verify them; what is there already stays.

    Parameters
    ----------
    names
        Weights or models by name; leave out for everything that the enabled models need.
    """
    from tenuto.weights.pull import pull

    settings = place.settings()
    wanted = _weights(names, settings)
    with _Progress() as progress:
        places = pull(wanted, settings.cache, progress.on_progress)
    for where in places:
        say(str(where))


@app.command(name="verify")
def verify_weights(*names: str, place: Place = HERE) -> None:
    """Hash the weights again, in full; fail when one is not what it should be.

    Parameters
    ----------
    names
        Weights or models by name; leave out for everything that the enabled models need.
    """
    from tenuto.weights.verify import verify

    settings = place.settings()
    problems = verify(settings.cache, _weights(names, settings))
    for problem in problems:
        say(f"{problem.path}: {problem.message}")
    if problems:
        tell("mend it: tenuto models pull")
        raise SystemExit(1)
    say("all weights are what the manifest says")


def _weights(names: Iterable[str], settings: Settings) -> list[str]:
    """The weights behind names of models or weights."""
    chosen = list(names)
    if not chosen:
        known = _entries(settings)
        enabled = [entry for entry in known if settings.models.get(entry.model, ModelSettings()).enabled]
        return sorted({name for entry in enabled for name in entry.weights})
    by_model = {entry.model: weights_of(entry) for entry in _entries(settings)}
    wanted = [weight for name in chosen for weight in by_model.get(name, (name,))]
    shipped().weights_for(wanted)
    return wanted


def _entries(settings: Settings) -> list[EngineEntry]:
    """All of Tenuto's own models, the fakes among them, and those that the operator added."""
    added = [model.entry for name, model in models(settings).items() if name in settings.models]
    return [*ENTRIES, *(entry for entry in added if entry not in ENTRIES)]


class _Progress:
    """A bar per weight on a terminal, a line per stage elsewhere."""

    def __init__(self) -> None:
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._told: set[tuple[str, str]] = set()

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
            if (name, stage) not in self._told:
                self._told.add((name, stage))
                tell(f"{name}: {stage} ({total_bytes / 1e6:.1f} MB)")
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total_bytes, stage=stage)
        self._bars.update(self._tasks[name], completed=done_bytes, total=total_bytes, stage=stage)
