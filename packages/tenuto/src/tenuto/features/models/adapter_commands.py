"""`tenuto admin adapters`: the engines that an operator may add, and the settings that add one."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tenuto.command.common import say, table
from tenuto.errors import OperatorError
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

if TYPE_CHECKING:
    from tenuto.host.manifests import Manifest

HEADINGS = ("adapter", "kind", "model", "licence", "accept first", "memory MiB")


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument(
        "adapter",
        nargs="?",
        metavar="NAME",
        help=t("print the settings for this adapter (default: list all)"),
    )
    parser.add_argument(
        "--interpreter",
        metavar="PYTHON",
        type=python_path,
        help=t("look for installed engines in this Python (default: Tenuto's own)"),
    )
    parser.set_defaults(run=_list)


def python_path(text: str) -> str:
    """A Python by its name, or by its absolute path, as what reads the settings may run in another folder.

    Links stay: by its link a Python knows its environment.
    """
    return str(Path(text).absolute()) if "/" in text else text


def _list(options: argparse.Namespace, console: Console) -> int:
    """List the engines that may be added, or print the settings table for the one that is named."""
    from tenuto.features.models.adapters import find
    from tenuto.host import manifests

    name, interpreter = options.adapter, options.interpreter
    try:
        if name is not None:
            say(as_table(find(name, interpreter), interpreter))
            return 0
        engines = {**(manifests.installed(interpreter) if interpreter else {}), **manifests.adapters()}
    except manifests.ManifestInvalid as error:
        raise OperatorError(str(error)) from error
    table(HEADINGS, (_row(engines[name]) for name in sorted(engines)))
    return 0


def as_table(manifest: "Manifest", interpreter: str | None) -> str:
    """The settings table of a model with this adapter; optional lines are commented out.

    So is the acceptance of its licence: a table that is appended unread accepts nothing.
    """
    lines = [f"# {manifest.summary}", f'[models."{manifest.model}"]', f'adapter = "{manifest.name}"']
    if manifest.licence.needs_acceptance:
        lines.append(
            f"# To accept its licence, read {manifest.licence.url} and take the # off the next line."
        )
        lines.append(f'# accept_licence = "{manifest.licence.name}"')
    if manifest.own_interpreter or interpreter is not None:
        lines.append(f'interpreter = "{interpreter or "/path/to/its/environment/bin/python"}"')
    if manifest.upstream:
        lines += ['upstream = "http://127.0.0.1:8000/v1"', '# upstream_key_variable = "ITS_KEY"']
    lines += [f"# defaults.{name} = {value}" for name, value in manifest.defaults.items()]
    for name, option in manifest.options.items():
        value = toml(option.default) if option.default is not None else f'"{option.type}"'
        sign = "" if option.required else "# "
        lines += [f"# {option.help}", f"{sign}options.{name} = {value}"]
    return "\n".join(lines)


def toml(value: Any) -> str:
    """A value as TOML, which is JSON except for tables."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value, ensure_ascii=False)


def _row(manifest: "Manifest") -> tuple[Any, ...]:
    licence = manifest.licence
    needed = "yes" if licence.needs_acceptance else "no"
    memory = manifest.memory_mib or None
    return manifest.name, manifest.kind, manifest.model, licence.name, needed, memory
