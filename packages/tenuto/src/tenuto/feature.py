"""What a feature is, and which there are: they live in `features/`, one folder each.

A feature is a folder of `tenuto.features` with a module `feature`, whose `FEATURE` says what it adds to the
core; other packages register theirs under the entry point group `tenuto.features`. The core finds them by
name and imports none. Every part is named, not imported (`module:name`), so that a process loads only what it
runs: a command loads no routes, a worker no HTTP.
"""

import functools
import importlib
import pkgutil
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

from tenuto.errors import OperatorError
from tenuto_client.commands import Command

GROUP = "tenuto.features"
"""Our own folder of features, and the entry point group under which other packages register theirs."""


class Feature(NamedTuple):
    """What a feature adds. A part is `module:name`, from the feature's own folder if it begins with a dot."""

    name: str
    needs: tuple[str, ...] = ()
    """The features that it imports."""
    kind: str = ""
    """A kind of job: a `kind.kinds.Kind`."""
    engines: str = ""
    """A function: the `host.registry.EngineEntry` of each model that it offers without settings."""
    settings: str = ""
    """A struct: what an operator may set of it, declared as in `config.settings`."""
    entries: str = ""
    """A function of the settings, the catalog's entries before it and a list of faults, which it extends: the
    entries that it adds, by model."""
    weights: str = ""
    """A function of the folder of weights and a name in it: whether they are there and verified."""
    starting: str = ""
    """A function of the settings and the database: what has to be done before `serve` starts."""
    routes: str = ""
    """A function of the settings: by path and method, what answers, as in `api.app`."""
    serving: str = ""
    """A function of the `api.service.Service`: the `api.service.Part` that it keeps in an API process."""
    duties: str = ""
    """A function of the `worker.watch.Watch`: the `worker.duties.Duty`s of every worker. It is called before
    the database is open."""
    stores: Mapping[str, str] = {}
    """By the scheme of an address: a function of settings and environment that opens the store there."""
    announce: str = ""
    """A function of the settings, the database, the address of the service and the time: lines for the person
    at the terminal, once the service answers. Where several processes answer, none of them has a terminal."""
    commands: Mapping[str, Command] = {}
    """By their words, such as `admin audit`: commands of `tenuto`."""
    console: str = ""
    """A function called before any command: it registers words, examples or services of its own."""
    observe: str = ""
    """A function of an event's name and its fields, called for each (`logs.listen`, `logs.tell`)."""
    erase: str = ""
    """A function of a transaction and a `job.erasure.Erased`: it erases what the feature keeps of that."""
    package: str = ""
    """Where parts that begin with a dot are."""

    def part(self, reference: str) -> Any:
        """What a reference names; it is imported now."""
        module, _, name = reference.partition(":")
        return getattr(importlib.import_module(module, self.package or f"{GROUP}.{self.name}"), name)


@functools.cache
def features() -> Mapping[str, Feature]:
    """All features by name, each after those that it needs.

    OperatorError: two have one name, one needs another that is not there, or one cannot be loaded.
    """
    found: dict[str, Feature] = {}
    for feature in (*_own(), *_installed()):
        if feature.name in found:
            raise OperatorError(f"two of the installed features are called {feature.name}; uninstall one")
        found[feature.name] = feature
    for feature in found.values():
        if missing := set(feature.needs) - found.keys():
            raise OperatorError(f"the feature {feature.name} needs {min(missing)}, which is not installed")
    order = TopologicalSorter({name: feature.needs for name, feature in found.items()}).static_order()
    return {name: found[name] for name in order}


def _own() -> list[Feature]:
    """The folders of `tenuto.features`; a missing folder means none."""
    try:
        folder = importlib.import_module(GROUP).__path__
    except ModuleNotFoundError:
        return []
    return [
        importlib.import_module(f"{GROUP}.{name}.feature").FEATURE
        for name in sorted(module.name for module in pkgutil.iter_modules(folder))
    ]


def _installed() -> list[Feature]:
    """Those of other packages. What looks them up takes as long to import as a whole command, so it is
    imported only where one is installed."""
    files = (file for folder in sys.path for file in Path(folder).glob("*-info/entry_points.txt"))
    if not any(GROUP.encode() in file.read_bytes() for file in files):
        return []
    from importlib.metadata import entry_points

    found = []
    for point in entry_points(group=GROUP):
        try:
            found.append(point.load())
        except Exception as error:
            raise OperatorError(
                f"the feature {point.name} of another package cannot be loaded ({error}); uninstall it"
            ) from error
    return found
