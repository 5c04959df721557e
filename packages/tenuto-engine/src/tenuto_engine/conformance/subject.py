"""What is examined: an engine's class, what its manifest declares, and what it is loaded and run with."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tenuto_engine
from tenuto_engine.adapters import found as installed_here

LOAD_S, RUN_S, GRACE_S = 600.0, 120.0, 5.0


@dataclass(frozen=True)
class Subject:
    """One engine. `parameters` and `inputs` replace those of `samples`, in every run."""

    engine: str
    """`module:Class`."""
    kind: str
    honoured: tuple[str, ...] = ()
    """The parameters that its manifest says change its output."""
    languages: tuple[str, ...] = ()
    role: str = ""
    """Of recognition: `segment_text`, which detects the language by itself, or `word_timestamps`."""
    concurrency: int = 1
    metered: bool = False
    network: bool = False
    """It calls a server; any other engine's process can open no socket, as in the service."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the class gets."""
    interpreter: str = sys.executable
    path: str = ""
    """A folder in which its module is, if that is not installed."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Packages that the interpreter need not have installed, each with its folder."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of its process."""
    load_timeout_s: float = LOAD_S
    run_timeout_s: float = RUN_S
    """The longest that a run may report nothing."""
    grace_s: float = GRACE_S
    """A cancelled run must have ended by then; the service waits for `host_grace_s`, which is 5 s."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    long_parameters: Mapping[str, Any] = field(default_factory=dict)
    """What makes a run last long enough to be cancelled; replaces those of `samples`."""
    long_inputs: Mapping[str, bytes] = field(default_factory=dict)


class NotASubject(ValueError):
    """There is nothing to examine under this name; the message says why."""


def subjects(
    target: str,
    *,
    interpreter: str = sys.executable,
    weights: Path | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Subject]:
    """The engines of an installed package, or the one of this entry point, by name.

    `weights` is the folder in which the weights of the manifest are, each under its name: the cache of
    `tenuto models pull`. `more` are fields of Subject. Raises NotASubject.
    """
    engines = installed_here() if interpreter == sys.executable else _installed(interpreter)
    named = {name: one for name, one in engines.items() if target in (name, *_package_names(one))}
    if not named:
        others = ", ".join(sorted(engines)) or "none"
        raise NotASubject(f"{target}: no entry point in the group tenuto.engines; installed are: {others}")
    examined = {}
    for name, one in named.items():
        table = _table(name, one["manifest"])
        examined[name] = Subject(**{
            "engine": one["engine"],
            "kind": str(table.get("kind", "")),
            "honoured": tuple(table.get("honoured", ())),
            "languages": tuple(table.get("languages", ())),
            "role": next(iter(table.get("roles", ())), ""),
            "concurrency": int(table.get("concurrency", 1)),
            "metered": bool(table.get("metered", False)),
            "network": bool(table.get("network") or table.get("upstream")),
            "options": {**_options(name, table, weights), **(options or {})},
            "interpreter": interpreter,
            "load_timeout_s": float(table.get("load_timeout_s", LOAD_S)),
            "parameters": dict(table.get("defaults", {})),
            **more,
        })  # fmt: skip
        _require_options(name, table, examined[name].options)
    return examined


def _installed(interpreter: str) -> dict[str, Any]:
    finder = Path(tenuto_engine.__file__ or "").with_name("adapters.py")
    answer = subprocess.run([interpreter, str(finder)], capture_output=True, check=True, timeout=60)
    engines: dict[str, Any] = json.loads(answer.stdout)
    return engines


def _package_names(one: Mapping[str, Any]) -> Iterator[str]:
    package = one["engine"].partition(":")[0].partition(".")[0]
    yield from (package, package.replace("_", "-"))


def _table(name: str, manifest: str | None) -> dict[str, Any]:
    """The table of this engine in its `engine.toml`."""
    if manifest is None:
        raise NotASubject(f"{name}: its package has no engine.toml")
    try:
        tables = tomllib.loads(manifest).get("engine", [])
    except tomllib.TOMLDecodeError as error:
        raise NotASubject(f"{name}: engine.toml is not TOML: {error}") from error
    own = [table for table in tables if table.get("name") == name]
    if len(own) != 1:
        raise NotASubject(f'{name}: engine.toml needs one [[engine]] with name = "{name}"')
    return dict(own[0])


def _options(name: str, table: Mapping[str, Any], weights: Path | None) -> dict[str, Any]:
    """What a worker gives an engine, with the defaults of its own options."""
    needed = table.get("weights", [])
    if needed and weights is None:
        raise NotASubject(f"{name} needs the weights {', '.join(needed)}: name the folder that has them")
    lacking = [one for one in needed if weights is not None and not (weights / one).exists()]
    if lacking:
        raise NotASubject(f"{name}: {weights} has no {', '.join(lacking)}")
    declared = {key: option.get("default") for key, option in table.get("options", {}).items()}
    return {
        **declared,
        "model": table.get("model", ""),
        "model_revision": table.get("revision", ""),
        "honoured": list(table.get("honoured", ())),
        "metered": bool(table.get("metered", False)),
        "role": next(iter(table.get("roles", ())), ""),
        "threads": 2,
        "weights": {one: str(weights / one) for one in needed if weights is not None},
    }


def _require_options(name: str, table: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    needed = [key for key, option in table.get("options", {}).items() if option.get("required")]
    lacking = [key for key in needed if options.get(key) is None]
    lacking += ["upstream"] if table.get("upstream") and not options.get("upstream") else []
    if lacking:
        raise NotASubject(f"{name} needs the options {', '.join(lacking)}")
