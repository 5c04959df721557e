"""Manifests of engines: what an engine is, needs, honours and costs, as a TOML file in its package.

Read without importing the engine. An engine is a package with an entry point in the group `tenuto.engines`
and an `engine.toml` as package data. Those installed beside the service are found in this process, those of
another interpreter by running it. One that is `offered` and installed beside the service is in the catalog at
once; others need the operator's settings.
"""

import functools
import json
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec

import tenuto_engine
from tenuto_engine.adapters import found as found_here

T = TypeVar("T")

FINDER = Path(tenuto_engine.__file__ or "").with_name("adapters.py")
FIND_S = 30
Role = Literal["segment_text", "word_timestamps"]
ROLES: tuple[str, ...] = get_args(Role)
LOAD_S = 600
"""From the start of an adapter's process until its weights are loaded, unless its manifest says otherwise."""
RESERVED = frozenset(
    {
        *("weights", "threads", "model", "model_revision", "role", "honoured", "metered"),
        *("upstream", "connections"),
    }
)
"""Options that the service itself hands to an engine."""
CONCURRENCY = "concurrency"
"""An option of this name is how many runs at once the operator allows the engine."""
MOST_CONCURRENCY = 64

_ENGINE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z", re.ASCII)
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=1)]
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "text": ((str,), "a text"),
    "path": ((str,), "a path"),
    "integer": ((int,), "an integer"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "texts": ((list,), "a list of texts"),
    "table": ((dict,), "a table of texts"),
}
"""Of options: the Python types of a value, and how a message describes it."""


class ManifestInvalid(ValueError):
    """A manifest, or an option for it, is wrong; the message says where and how."""


class Licence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The terms under which the model may be used; `needs_acceptance`: the operator must name it first."""

    name: _Name
    url: str
    needs_acceptance: bool = False


class Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting of the engine itself, in the table `options` of its model."""

    type: Literal["text", "path", "integer", "number", "boolean", "texts", "table"]
    help: str
    required: bool = False
    default: Any = None

    def fault(self, value: Any) -> str | None:
        """What is wrong with a value, or None. A boolean is not an integer."""
        types, described = _TYPES[self.type]
        fits = type(value) in types
        if fits and self.type == "texts":
            fits = all(type(item) is str for item in value)
        if fits and self.type == "table":
            fits = all(type(item) is str for item in value.values())
        return None if fits else f"{value!r} is not {described}"


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One engine."""

    name: str
    kind: _Name
    engine: str
    """`module:Class` in its package."""
    model: str
    """The model's own public name; an operator may offer it under another."""
    revision: str
    licence: Licence
    languages: tuple[str, ...] = ()
    honoured: tuple[str, ...] = ()
    """The parameters of the contract that change this model's output."""
    summary: str
    memory_mib: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The peak memory of its process, on the GPU if it uses one; 0: not known, or next to nothing."""
    processors: dict[str, tuple[str, ...]] = {}
    """The machines that its libraries are built for, each with the instructions that they use; empty: any."""
    concurrency: _Count = 1
    metered: bool = False
    """Each call is charged: a fence is passed before it, and after an unknown outcome it is never rerun."""
    own_interpreter: bool = False
    """Its libraries conflict with Tenuto's: the operator must name the Python that has them."""
    upstream: bool = False
    """It calls another server, which the operator names as `upstream`."""
    network: bool = False
    """Its process opens sockets for another reason: those of all others that call no server can open none."""
    weights: tuple[str, ...] = ()
    """Those of `tenuto models pull` that it uses besides its own."""
    tries: _Count = 2
    """How many times at most a chunk of a recording is transcribed, if its transcript is doubtful."""
    roles: tuple[Role, ...] = ()
    """Which transcript a recognition engine can write; the first, unless the operator says otherwise."""
    defaults: dict[str, int | float] = {}
    limits: dict[str, int | float | str] = {}
    """Where it stops short of the contract's bounds; shown in the catalog."""
    options: dict[str, Option] = {}
    load_timeout_s: _Count = LOAD_S
    folder: str = ""
    """Its package's folder."""
    offered: bool = False
    """It needs no settings: if it is installed beside the service, its model is offered."""
    notes: tuple[str, ...] = ()
    """What a customer should know before paying: where the model is weak, what it cannot do."""
    parameter_count: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Of the model, in all its networks; 0: not known."""
    demo: bool = False
    """It shows that the service works, and is too small to rely on: the studio says so."""


class Composition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recognition model composed of two others, each of which writes one of its transcripts."""

    model: str
    composed_of: tuple[str, ...]
    notes: tuple[str, ...] = ()


class Installed(msgspec.Struct, frozen=True):
    """What is installed beside the service: engines by name, models composed of them, and what is wrong."""

    manifests: Mapping[str, Manifest]
    compositions: tuple[Composition, ...]
    faults: tuple[str, ...]


def adapters() -> Mapping[str, Manifest]:
    """The engines installed beside the service that need an operator's table, by name."""
    return {name: one for name, one in here().manifests.items() if not one.offered}


@functools.cache
def installed(interpreter: str) -> Mapping[str, Manifest]:
    """The engines of packages that are installed for an interpreter; nothing of theirs is imported.

    Raises ManifestInvalid when the interpreter does not answer, or when a package's manifest is not one.
    """
    try:
        listed = subprocess.run(
            [interpreter, str(FINDER)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=FIND_S,
            check=True,
        )
        packages = json.loads(listed.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ManifestInvalid(f"{interpreter} cannot be asked for its engines: {error}") from error
    manifests = {}
    for name, one in packages.items():
        if one["manifest"] is None:
            raise ManifestInvalid(f"the engine {name} of {interpreter} has no engine.toml in its package")
        manifests[name] = of_package(name, one["manifest"], engine=one["engine"], folder=one["folder"])
    return manifests


@functools.cache
def here() -> Installed:
    """What is installed beside the service; a broken package costs only its own models."""
    manifests: dict[str, Manifest] = {}
    faults: list[str] = []
    packages = dict(sorted(found_here().items()))
    for name, one in packages.items():
        try:
            manifests[name] = of_package(
                name, one["manifest"] or "", engine=one["engine"], folder=one["folder"] or ""
            )
        except ManifestInvalid as error:
            faults.append(str(error))
    offered = {one.model: one for one in manifests.values() if one.offered}
    texts = {one["manifest"]: name for name, one in packages.items() if name in manifests}
    compositions: list[Composition] = []
    for text, name in texts.items():
        try:
            compositions += compositions_of(name, text, offered)
        except ManifestInvalid as error:
            faults.append(str(error))
    return Installed(manifests, tuple(compositions), tuple(faults))


def compositions_of(name: str, text: str, offered: Mapping[str, Manifest]) -> list[Composition]:
    """The tables `[[composition]]` of an `engine.toml`, whose models are among those that are offered."""
    compositions = [_made(Composition, name, table) for table in _tables(name, text, "composition")]
    for one in compositions:
        roles = [role for model in one.composed_of if model in offered for role in offered[model].roles[:1]]
        if roles != list(ROLES) or len(one.composed_of) != len(ROLES):
            fault = f"composition.composed_of names no two offered models: {', '.join(ROLES)}"
            raise ManifestInvalid(f"the manifest {name}: {fault}")
    return compositions


def of_package(name: str, text: str, *, engine: str, folder: str = "") -> Manifest:
    """The table `[[engine]]` of this name in an `engine.toml`, with the class that its entry point names.

    The rest of the file is about weights. Raises ManifestInvalid.
    """
    own = [table for table in _tables(name, text, "engine") if table.get("name") == name]
    if len(own) != 1:
        raise ManifestInvalid(f'the manifest {name}: engine.toml needs one [[engine]] with name = "{name}"')
    table = {key: value for key, value in own[0].items() if key != "name"}
    _require("engine" not in table, name, "engine", "is the entry point's to say")
    manifest = _made(Manifest, name, {**table, "name": name, "engine": engine, "folder": folder})
    _check(manifest)
    return manifest


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


# One file may describe several engines: it is parsed once.
_loaded = functools.lru_cache(maxsize=64)(tomllib.loads)


def _made(what: type[T], name: str, values: dict[str, Any]) -> T:
    try:
        return msgspec.convert(values, what)
    except msgspec.ValidationError as error:
        raise ManifestInvalid(f"the manifest {name}: {error}") from error


def _check(manifest: Manifest) -> None:
    """Check what the types do not express."""
    name = manifest.name
    _require(bool(_ENGINE.match(manifest.engine)), name, "engine", "is not module:Class")
    _require(bool(manifest.roles) == (manifest.kind == "recognition"), name, "roles", "belong to recognition")
    needs = manifest.own_interpreter or manifest.upstream or manifest.licence.needs_acceptance
    needs = needs or any(option.required for option in manifest.options.values())
    _require(
        not (manifest.offered and needs), name, "offered", "is true, but it needs an operator's settings"
    )
    for key, option in manifest.options.items():
        _require(key not in RESERVED, name, f"options.{key}", "is a name of the service's own")
        fits = option.default is None or option.fault(option.default) is None
        _require(fits, name, f"options.{key}.default", "does not fit its type")


def _require(condition: bool, name: str, key: str, fault: str) -> None:
    if not condition:
        raise ManifestInvalid(f"the manifest {name}: {key} {fault}")
