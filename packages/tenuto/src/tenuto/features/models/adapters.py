"""Models that adapters run, and models composed of two others, as the operator's settings define them.

A manifest describes an adapter (`host/manifests.py`), the settings choose among what it can do. Together
they make an entry of the catalog, or a list of faults. Starts nothing, and imports no engine.
"""

import shutil
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tenuto.config import AdapterSettings, ModelSettings, Settings
from tenuto.errors import Fault
from tenuto.features.models.additions import additions
from tenuto.host import manifests
from tenuto.host.manifests import CONCURRENCY, MOST_CONCURRENCY, ROLES, Manifest, ManifestInvalid
from tenuto.host.registry import ENTRIES, EngineEntry, of_manifest
from tenuto.host.registry import composed as composed_entry
from tenuto.kind.kinds import is_known, kinds
from tenuto.rules import by_name, read_fields


def catalog_entries(
    settings: Settings, known: Mapping[str, EngineEntry], faults: list[str]
) -> dict[str, EngineEntry]:
    """The entries of all enabled tables that name an adapter or compose a model; adds what is wrong to the
    faults. `known`: those without tables."""
    faults += _unknown(settings)
    made = entries(settings.models, faults)
    for name, own in settings.models.items():
        if own.composed_of and own.enabled:
            entry = composed(name, own, {**known, **made}, faults)
            made |= {} if entry is None else {name: entry}
    return made


def entries(models: Mapping[str, ModelSettings], faults: list[str]) -> dict[str, EngineEntry]:
    """The entries of all enabled tables that name an adapter; adds what is wrong to the faults."""
    made = {}
    for name, own in models.items():
        if own.adapter is None or not own.enabled:
            continue
        where = f'models."{name}"'
        try:
            manifest = find(own.adapter.name, own.interpreter)
        except ManifestInvalid as error:
            faults.append(f"{where}.adapter: {error}")
            continue
        if not is_known(manifest.kind):
            there = ", ".join(kinds())
            faults.append(f"{where}.adapter: is for {manifest.kind}; the kinds of job are {there}")
            continue
        faults.extend(f"{where}{fault}" for fault in _faults(manifest, own, own.adapter))
        made[name] = _entry(name, manifest, own, own.adapter)
    return made


def find(name: str, interpreter: str | None) -> Manifest:
    """An adapter by name: installed next to Tenuto, or else for the model's interpreter.

    A machine that does not run the engine needs no interpreter for it: the adapter's package, installed next
    to Tenuto without its dependencies, describes the model and is never imported.
    """
    known = dict(manifests.here().manifests)
    if name not in known and interpreter and shutil.which(interpreter):
        known = {**manifests.installed(interpreter), **known}
    if name not in known:
        raise ManifestInvalid(f"there is no {name}; there are {', '.join(sorted(known))}")
    return known[name]


def offers(name: str, model: str) -> bool:
    """Whether the engine of this name offers this model by itself: the table then only sets its options."""
    manifest = manifests.here().manifests.get(name)
    return manifest is not None and manifest.offered and manifest.model == model


def composed(
    name: str, own: ModelSettings, known: Mapping[str, EngineEntry], faults: list[str]
) -> EngineEntry | None:
    """A recognition model composed of two others, each of which writes one of its transcripts."""
    where = f'models."{name}".composed_of'
    unknown = [part for part in own.composed_of if part not in known]
    if unknown:
        faults.append(f"{where}: there is no {', '.join(unknown)}; there are {', '.join(known)}")
        return None
    parts = tuple(known[part] for part in own.composed_of)
    if [part.role for part in parts] != list(ROLES):
        roles = " and one for ".join(ROLES)
        faults.append(f"{where}: name two recognition models, one for {roles}, in this order")
        return None
    return composed_entry(name, parts)


def _entry(name: str, manifest: Manifest, own: ModelSettings, adapter: AdapterSettings) -> EngineEntry:
    chosen = {key: option.default for key, option in manifest.options.items()} | dict(adapter.options)
    metered = manifest.metered if adapter.metered is None else adapter.metered
    role = adapter.role or next(iter(manifest.roles), "")
    honoured = manifest.honoured if adapter.honoured is None else adapter.honoured
    known: dict[str, Any] = {"model": name, "role": role, "honoured": list(honoured), "metered": metered}
    if own.upstream is not None:
        known["upstream"] = {"url": own.upstream.url, "model": own.upstream.model or name}
        known["connections"] = own.upstream.connections
    paths = [chosen[key] for key, option in manifest.options.items() if option.type == "path"]
    return replace(
        of_manifest(manifest),
        model=name,
        revision=adapter.revision or manifest.revision,
        languages=manifest.languages if adapter.languages is None else adapter.languages,
        honoured=honoured,
        notes=manifest.notes if manifest.model == name else (),
        rerunnable=not metered,
        concurrency=own.upstream.connections
        if own.upstream is not None
        else chosen.get(CONCURRENCY, manifest.concurrency),
        role=role,
        # A metered transcription is never repeated.
        tries=1 if metered or not manifest.roles else manifest.tries,
        defaults={**manifest.defaults, **adapter.defaults},
        memory_mib=adapter.memory_mib or manifest.memory_mib,
        options={**chosen, **known},
        paths=tuple(str(path) for path in paths if path),
        load_timeout_s=adapter.load_timeout_s or manifest.load_timeout_s,
    )


def _faults(manifest: Manifest, own: ModelSettings, adapter: AdapterSettings) -> list[str]:
    """The conflicts between a table and its adapter, one line each."""
    return [
        *_licence_faults(manifest, adapter),
        *_interpreter_faults(manifest, own),
        *_upstream_faults(manifest, own),
        *_option_faults(manifest, adapter),
        *_choice_faults(manifest, adapter),
        *_default_faults(manifest, adapter),
    ]


def _licence_faults(manifest: Manifest, adapter: AdapterSettings) -> list[str]:
    licence, accepted = manifest.licence, adapter.accept_licence
    if accepted is None and licence.needs_acceptance:
        return [
            f": its licence {licence.name} must be accepted first: read {licence.url}, then write"
            f' accept_licence = "{licence.name}" into this table'
        ]
    if accepted not in (None, licence.name):
        return [f".accept_licence: is {accepted!r}; the licence is {licence.name!r}, see {licence.url}"]
    return []


def _interpreter_faults(manifest: Manifest, own: ModelSettings) -> list[str]:
    if manifest.own_interpreter and own.interpreter is None:
        return [".interpreter: name the Python in which this engine's libraries are installed"]
    return []


def _upstream_faults(manifest: Manifest, own: ModelSettings) -> list[str]:
    if manifest.upstream and own.upstream is None:
        return [".upstream: name the server's address, such as https://host/v1"]
    if own.upstream is not None and not manifest.upstream:
        return [".upstream: means nothing for this adapter, which calls no server"]
    return []


def _option_faults(manifest: Manifest, adapter: AdapterSettings) -> list[str]:
    faults = []
    for key, value in adapter.options.items():
        option = manifest.options.get(key)
        if option is None:
            there = ", ".join(manifest.options) or "none"
            faults.append(f".options.{key}: there is no such option; there are: {there}")
        elif (fault := option.fault(value)) is not None:
            faults.append(f".options.{key}: {fault}")
        elif key == CONCURRENCY and not 1 <= value <= MOST_CONCURRENCY:
            faults.append(f".options.{key}: {value} is not between 1 and {MOST_CONCURRENCY}")
    lacking = [
        key for key, option in manifest.options.items() if option.required and key not in adapter.options
    ]
    return [*faults, *(f".options.{key}: is needed: {manifest.options[key].help}" for key in lacking)]


def _choice_faults(manifest: Manifest, adapter: AdapterSettings) -> list[str]:
    faults = []
    if adapter.role is not None and adapter.role not in manifest.roles:
        faults.append(f".role: {adapter.role!r} is not one of {', '.join(manifest.roles) or '(it has none)'}")
    more = set(adapter.honoured or ()) - set(manifest.honoured)
    if more:
        faults.append(f".honoured: {', '.join(sorted(more))} changes nothing here; it can only be narrowed")
    return faults


def _default_faults(manifest: Manifest, adapter: AdapterSettings) -> list[str]:
    unknown = [key for key in adapter.defaults if key not in manifest.defaults]
    if unknown:
        there = ", ".join(manifest.defaults) or "none"
        return [f".defaults: there is no {', '.join(unknown)}; there are: {there}"]
    faults: list[Fault] = []
    # Required fields have no defaults.
    kind = kinds().get(manifest.kind)
    fields = by_name(field for field in (kind.fields if kind else ()) if not field.required)
    read_fields(fields, {**manifest.defaults, **adapter.defaults}, ".defaults.", faults)
    return [str(fault) for fault in faults]


def _unknown(settings: Settings) -> list[str]:
    """Faults for tables of unknown models: a misspelt name would leave the model without its settings.

    A model that could be added is known: its settings stay when it is removed, and wait for it.
    """
    ours = [entry.model for entry in ENTRIES]
    faults, strangers = [], []
    for name, own in settings.models.items():
        if own.adapter is not None and offers(own.adapter.name, name):
            continue
        brought = [key for key in ("adapter", "upstream", "composed_of") if getattr(own, key)]
        if name in ours and brought:
            faults.append(f'models."{name}": is Tenuto\'s own; rename the model that has {brought[0]}')
        elif name not in ours and not brought and not _can_be_added(name):
            strangers.append(name)
    if strangers:
        faults.append(
            f"models: there is no {', '.join(strangers)}; there are {', '.join(ours)}; for another, name its"
            " adapter or upstream"
        )
    return faults


def _can_be_added(model: str) -> bool:
    return any(one.model == model for one in additions().values())
