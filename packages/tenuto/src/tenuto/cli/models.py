"""`tenuto admin models`: the models of this installation, and whether their weights are here and sound."""

import argparse
from collections.abc import Iterable

from tenuto.catalog.rules import models
from tenuto.cli.common import say, table, tell
from tenuto.cli.options import add_place, place_of
from tenuto.config import ModelSettings, Settings
from tenuto.engines.registry import ENTRIES, EngineEntry, weights_of
from tenuto.weights import cache as weights_cache
from tenuto.weights.manifest import shipped
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """The commands and their options; `pull` is in a module of its own."""
    every = parser.add_verb("list", "List the models, and whether their weights are here.", "ls")
    verify = parser.add_verb("verify", "Hash the weights again, and fail if any are damaged.")
    verify.add_argument(
        "names", nargs="*", metavar="NAME", help=t("models or weights (default: all that are needed)")
    )
    for command, run in {every: _list, verify: _verify}.items():
        add_place(command)
        command.set_defaults(run=run)


def _list(options: argparse.Namespace, console: Console) -> int:
    """List the models, and whether their weights are here; the fake ones if `engines` names them."""
    settings = place_of(options).settings()
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
    return 0


def _verify(options: argparse.Namespace, console: Console) -> int:
    """Hash the weights again, in full; fail if one is not what it should be."""
    from tenuto.weights.verify import verify

    settings = place_of(options).settings()
    problems = verify(settings.cache, needed_weights(options.names, settings))
    for problem in problems:
        say(f"{problem.path}: {problem.message}")
    if problems:
        tell("to repair them: tenuto models pull")
        return 1
    say("all weights match the manifest")
    return 0


def needed_weights(names: Iterable[str], settings: Settings) -> list[str]:
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
