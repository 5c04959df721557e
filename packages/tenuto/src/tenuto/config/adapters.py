"""What an operator says of a model whose engine is an adapter's, in the file's table `[models."NAME"]`.

Only shapes are checked here; whether they fit the adapter is known where its manifest is (catalog).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ADAPTER_FIELDS = (
    *("adapter", "accept_licence", "revision", "role", "honoured", "languages", "defaults", "options"),
    *("metered", "memory_mib", "load_timeout_s"),
)
MAX_LOAD_TIMEOUT_S = 86_400


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """Which adapter runs a model, and what it is told; None: as the adapter's manifest has it."""

    name: str
    accept_licence: str | None = None
    """The licence that the operator has read and accepts, by its name."""
    revision: str | None = None
    """Which weights they are, as results will name them."""
    role: str | None = None
    """Which transcript a recognition engine writes, of those that it can."""
    honoured: tuple[str, ...] | None = None
    """Fewer parameters than the adapter honours, where the server behind it takes fewer."""
    languages: tuple[str, ...] | None = None
    defaults: Mapping[str, int | float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    metered: bool | None = None
    """Each call is charged: never repeated, a doubtful outcome waits for the operator."""
    memory_mib: int | None = None
    load_timeout_s: int | None = None
    """From the start of its process until the weights are loaded."""


def read_adapter(where: str, table: dict[str, Any], faults: list[str]) -> AdapterSettings | None:
    """The adapter of a table, None where it names none; what is wrong is added to the faults."""
    given = [key for key in ADAPTER_FIELDS if key in table]
    if not given:
        return None
    if "adapter" not in table:
        faults.append(f"{where}.{given[0]}: means nothing without `adapter`, the name of an engine")
    for key in ("adapter", "accept_licence", "revision", "role"):
        if key in table and (not isinstance(table[key], str) or not table[key]):
            faults.append(f"{where}.{key}: {table[key]!r} is not a text")
    for key in ("defaults", "options"):
        if not isinstance(table.get(key, {}), dict):
            faults.append(f"{where}.{key}: is not a table")
    if not isinstance(table.get("metered", False), bool):
        faults.append(f"{where}.metered: {table['metered']!r} is not true or false")
    for key, most in (("memory_mib", 1 << 30), ("load_timeout_s", MAX_LOAD_TIMEOUT_S)):
        if key in table and (type(table[key]) is not int or not 1 <= table[key] <= most):
            faults.append(f"{where}.{key}: {table[key]!r} is not an integer from 1 to {most}")
    return AdapterSettings(
        name=str(table.get("adapter", "")),
        accept_licence=table.get("accept_licence"),
        revision=table.get("revision"),
        role=table.get("role"),
        honoured=texts(where, table, "honoured", faults),
        languages=texts(where, table, "languages", faults),
        defaults=table.get("defaults", {}),
        options=table.get("options", {}),
        metered=table.get("metered"),
        memory_mib=table.get("memory_mib"),
        load_timeout_s=table.get("load_timeout_s"),
    )


def texts(where: str, table: dict[str, Any], key: str, faults: list[str]) -> tuple[str, ...] | None:
    """A list of texts, None where there is none."""
    if key not in table:
        return None
    value = table[key]
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        faults.append(f"{where}.{key}: {value!r} is not a list of texts")
        return ()
    return tuple(value)


def adapter_from(own: dict[str, Any]) -> AdapterSettings:
    """What `asdict` made of it, as JSON brings it back."""
    return AdapterSettings(**own | {key: own[key] and tuple(own[key]) for key in ("honoured", "languages")})
