"""`tenuto models adapters`: the engines that an operator may add, and what to write to have one."""

import json
from typing import Annotated, Any

from cyclopts import Parameter

from tenuto.catalog.adapters import find
from tenuto.cli.common import say, table
from tenuto.engines import manifests
from tenuto.engines.manifests import Manifest, ManifestInvalid
from tenuto.errors import OperatorError

HEADINGS = ("adapter", "kind", "model", "licence", "accept first", "memory MiB")
Interpreter = Annotated[
    str | None, Parameter(help="A Python in which engines of other people are installed; else Tenuto's own.")
]


def list_adapters(name: str | None = None, *, interpreter: Interpreter = None) -> None:
    """List engines that may be added; of one that is named, print its table for the file of settings.

    Parameters
    ----------
    name
        An adapter; leave out for all.
    """
    try:
        if name is not None:
            say(as_table(find(name, interpreter), interpreter))
            return
        found = {**(manifests.installed(interpreter) if interpreter else {}), **manifests.adapters()}
    except ManifestInvalid as error:
        raise OperatorError(str(error)) from error
    table(HEADINGS, (_row(found[name]) for name in sorted(found)))


def as_table(manifest: Manifest, interpreter: str | None) -> str:
    """The table of a model with this adapter; what may be left out stands behind a number sign.

    So does the acceptance of its licence: a table that is appended unread accepts nothing.
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
    """A value as TOML: JSON, but for tables."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    return json.dumps(value, ensure_ascii=False)


def _row(manifest: Manifest) -> tuple[Any, ...]:
    licence = manifest.licence
    needed = "yes" if licence.needs_acceptance else "no"
    memory = manifest.memory_mib or None
    return manifest.name, manifest.kind, manifest.model, licence.name, needed, memory
