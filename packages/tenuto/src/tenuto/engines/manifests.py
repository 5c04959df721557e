"""Manifests of engines: what an engine is, needs, honours and costs, as a TOML file in its package.

Read without importing the engine. An engine is a package with an entry point in the group `tenuto.engines`
and an `engine.toml` as package data. What is installed beside the service is found in this process; another
interpreter is asked. One that is `offered` and installed beside the service is in the catalog at once; others
wait for the operator's settings, which `catalog/adapters.py` joins with them.
"""

import functools
import json
import re
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import tenuto_engine
from tenuto_engine.adapters import found as found_here

T = TypeVar("T")

FINDER = Path(tenuto_engine.__file__ or "").with_name("adapters.py")
FIND_S = 30
ROLES = ("segment_text", "word_timestamps")
LOAD_S = 600
"""From the start of an adapter's process until its weights are loaded, unless its manifest knows better."""
RESERVED = frozenset(
    {
        *("weights", "threads", "model", "model_revision", "role", "honoured", "metered"),
        *("upstream", "connections"),
    }
)
"""Options that the service itself hands to an engine."""

_ENGINE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z", re.ASCII)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "path": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "texts": (list,),
    "table": (dict,),
}


class ManifestInvalid(ValueError):
    """A manifest, or an option that should fit it, is not what it should be; the message says what is."""


@dataclass(frozen=True, slots=True)
class Licence:
    """Under which terms the model may be used; `needs_acceptance`: the operator must name it first."""

    name: str
    url: str
    needs_acceptance: bool


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that an operator tells the engine, in the table `options` of its model."""

    type: str
    help: str
    required: bool = False
    default: Any = None

    def fault(self, value: Any) -> str | None:
        """What is wrong with a value, or None. A boolean is no integer."""
        fits = type(value) in _TYPES[self.type]
        if fits and self.type == "texts":
            fits = all(type(item) is str for item in value)
        if fits and self.type == "table":
            fits = all(type(item) is str for item in value.values())
        return None if fits else f"{value!r} is not {_SAID[self.type]}"


_SAID = {
    "text": "a text",
    "path": "a path",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "texts": "a list of texts",
    "table": "a table of texts",
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One adapter."""

    name: str
    kind: str
    engine: str
    """`module:Class` in its package."""
    model: str
    """The model's own public name; an operator may offer it under another."""
    revision: str
    licence: Licence
    languages: tuple[str, ...]
    honoured: tuple[str, ...]
    """The parameters of the contract that change this model's output."""
    summary: str
    memory_mib: int
    """What its process takes at its peak, of the GPU where it uses one; 0: not known, or next to nothing."""
    concurrency: int = 1
    metered: bool = False
    """Each call is charged: a fence is passed before it, and a doubtful outcome is never run again."""
    own_interpreter: bool = False
    """Its libraries don't go together with Tenuto's: the operator must name the Python that has them."""
    upstream: bool = False
    """It calls another server, which the operator names as `upstream`."""
    weights: tuple[str, ...] = ()
    """Those of `tenuto models pull` that it uses beside its own."""
    tries: int = 2
    """How often a part of a recording is heard at most, where its transcript is doubtful."""
    roles: tuple[str, ...] = ()
    """Which transcript a recognition engine can write; the first, unless the operator says otherwise."""
    defaults: Mapping[str, int | float] = field(default_factory=dict)
    limits: Mapping[str, int | float | str] = field(default_factory=dict)
    """Where it stops short of the contract's bounds; shown in the catalog."""
    options: Mapping[str, Option] = field(default_factory=dict)
    load_timeout_s: int = LOAD_S
    folder: str = ""
    """Its package's."""
    offered: bool = False
    """It needs nothing of the operator: where it is installed beside the service, its model is offered."""
    notes: tuple[str, ...] = ()
    """What a customer should know before paying: where the model is weak, what it cannot do."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A recognition model of two others, each of which writes one of its transcripts."""

    model: str
    composed_of: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Installed:
    """What is installed beside the service: engines by name, models composed of them, and what is wrong."""

    manifests: Mapping[str, Manifest]
    compositions: tuple[Composition, ...]
    faults: tuple[str, ...]


def adapters() -> Mapping[str, Manifest]:
    """The engines installed beside the service that wait for an operator's table, by name."""
    return {name: one for name, one in here().manifests.items() if not one.offered}


@functools.cache
def installed(interpreter: str) -> Mapping[str, Manifest]:
    """The adapters of packages that are installed for an interpreter; nothing of theirs is imported.

    Raises ManifestInvalid when the interpreter does not answer, or when a package's manifest is not one.
    """
    try:
        asked = subprocess.run(
            [interpreter, str(FINDER)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=FIND_S,
            check=True,
        )
        found = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ManifestInvalid(f"{interpreter} cannot be asked for its engines: {error}") from error
    manifests = {}
    for name, one in found.items():
        if one["manifest"] is None:
            raise ManifestInvalid(f"the engine {name} of {interpreter} has no engine.toml in its package")
        manifests[name] = of_package(name, one["manifest"], engine=one["engine"], folder=one["folder"])
    return manifests


@functools.cache
def here() -> Installed:
    """What is installed beside the service; a package that is broken takes away its own models alone."""
    manifests: dict[str, Manifest] = {}
    faults: list[str] = []
    found = dict(sorted(found_here().items()))
    for name, one in found.items():
        try:
            manifests[name] = of_package(
                name, one["manifest"] or "", engine=one["engine"], folder=one["folder"] or ""
            )
        except ManifestInvalid as error:
            faults.append(str(error))
    offered = {one.model: one for one in manifests.values() if one.offered}
    texts = {one["manifest"]: name for name, one in found.items() if name in manifests}
    compositions: list[Composition] = []
    for text, name in texts.items():
        try:
            compositions += compositions_of(name, text, offered)
        except ManifestInvalid as error:
            faults.append(str(error))
    return Installed(manifests, tuple(compositions), tuple(faults))


def compositions_of(name: str, text: str, offered: Mapping[str, Manifest]) -> list[Composition]:
    """The tables `[[composition]]` of an `engine.toml`, whose models are among those that are offered."""
    compositions = []
    for table in _tables(name, text, "composition"):
        values = {key: _texts(name, key, table.get(key, [])) for key in ("composed_of", "notes")}
        one = _made(Composition, name, "composition.", {**table, **values})
        _require(type(one.model) is str, name, "composition.model", "is not a text")
        roles = [part for model in one.composed_of if model in offered for part in offered[model].roles[:1]]
        is_whole = roles == list(ROLES) and len(one.composed_of) == len(ROLES)
        _require(
            is_whole, name, "composition.composed_of", f"names no two offered models: {', '.join(ROLES)}"
        )
        compositions.append(one)
    return compositions


def of_package(name: str, text: str, *, engine: str, folder: str = "") -> Manifest:
    """The table `[[engine]]` of this name in an `engine.toml`, with the class that its entry point names.

    What else stands in the file is about weights (`tenuto.weights`). Raises ManifestInvalid.
    """
    own = [table for table in _tables(name, text, "engine") if table.get("name") == name]
    if len(own) != 1:
        raise ManifestInvalid(f'the manifest {name}: engine.toml needs one [[engine]] with name = "{name}"')
    table = {key: value for key, value in own[0].items() if key != "name"}
    _require("engine" not in table, name, "engine", "is the entry point's to say")
    return _manifest(name, {**table, "engine": engine, "folder": folder})


def _tables(name: str, text: str, key: str) -> list[dict[str, Any]]:
    tables = _toml(name, text).get(key, [])
    is_list = type(tables) is list and all(type(table) is dict for table in tables)
    _require(is_list, name, key, f"is not a list of tables: write [[{key}]]")
    return list(tables)


def _toml(name: str, text: str) -> dict[str, Any]:
    try:
        return _loaded(text)
    except tomllib.TOMLDecodeError as error:
        raise ManifestInvalid(f"the manifest {name} is not TOML: {error}") from error


# One file speaks for several engines: it is read once.
_loaded = functools.lru_cache(maxsize=64)(tomllib.loads)


def _manifest(name: str, table: dict[str, Any]) -> Manifest:
    values: dict[str, Any] = {"memory_mib": 0, "options": {}, "defaults": {}, "limits": {}} | table
    for key in ("options", "defaults", "limits"):
        values[key] = _table(name, key, values[key])
    for key in ("languages", "honoured", "roles", "weights", "notes"):
        values[key] = _texts(name, key, values.get(key, []))
    licence = {"needs_acceptance": False, **_table(name, "licence", values.pop("licence", {}))}
    values["licence"] = _made(Licence, name, "licence.", licence)
    values["options"] = {
        key: _made(Option, name, f"options.{key}.", _table(name, f"options.{key}", option))
        for key, option in values["options"].items()
    }
    manifest = _made(Manifest, name, "", {**values, "name": name})
    _check(manifest)
    return manifest


def _made(what: type[T], name: str, where: str, values: dict[str, Any]) -> T:
    """One of the classes above from what a file says; what it does not know, or misses, is named."""
    known = fields(what)  # type: ignore[arg-type]
    needed = {one.name for one in known if one.default is MISSING and one.default_factory is MISSING}
    for key in sorted(values.keys() - {one.name for one in known}):
        raise ManifestInvalid(f"the manifest {name}: there is no {where}{key}")
    for key in sorted(needed - values.keys()):
        raise ManifestInvalid(f"the manifest {name}: {where}{key} is missing")
    return what(**values)


def _table(name: str, key: str, value: Any) -> dict[str, Any]:
    _require(type(value) is dict, name, key, "is not a table")
    return dict(value)


def _texts(name: str, key: str, value: Any) -> tuple[str, ...]:
    is_list = type(value) is list and all(type(item) is str for item in value)
    _require(is_list, name, key, "is not a list of texts")
    return tuple(value)


def _check(manifest: Manifest) -> None:
    name = manifest.name
    _require(type(manifest.kind) is str and manifest.kind != "", name, "kind", "is not the name of one")
    _require(bool(_ENGINE.match(manifest.engine)), name, "engine", "is not module:Class")
    _require(set(manifest.roles) <= set(ROLES), name, "roles", f"holds others than {', '.join(ROLES)}")
    _require(bool(manifest.roles) == (manifest.kind == "recognition"), name, "roles", "belong to recognition")
    for key in ("model", "revision", "summary"):
        _require(type(getattr(manifest, key)) is str, name, key, "is not a text")
    for key in ("memory_mib", "concurrency", "load_timeout_s", "tries"):
        value = getattr(manifest, key)
        _require(type(value) is int and value >= (key != "memory_mib"), name, key, "is not such a number")
    for key in ("metered", "own_interpreter", "upstream", "offered"):
        _require(type(getattr(manifest, key)) is bool, name, key, "is not true or false")
    licence = manifest.licence
    _require(type(licence.name) is str and licence.name != "", name, "licence.name", "is missing")
    _require(type(licence.url) is str, name, "licence.url", "is not a text")
    needs = manifest.own_interpreter or manifest.upstream or manifest.licence.needs_acceptance
    needs = needs or any(option.required for option in manifest.options.values())
    _require(
        not (manifest.offered and needs), name, "offered", "is true, but it needs an operator's settings"
    )
    for key, option in manifest.options.items():
        _require(option.type in _TYPES, name, f"options.{key}.type", f"is none of {', '.join(_TYPES)}")
        _require(key not in RESERVED, name, f"options.{key}", "is a name of the service's own")
        fits = option.default is None or option.fault(option.default) is None
        _require(fits, name, f"options.{key}.default", "does not fit its type")


def _require(condition: bool, name: str, key: str, fault: str) -> None:
    if not condition:
        raise ManifestInvalid(f"the manifest {name}: {key} {fault}")
