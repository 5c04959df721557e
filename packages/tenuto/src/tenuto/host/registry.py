"""The available engines, as data: nothing of an engine is imported until a host starts it.

Engines are packages with manifests (`manifests.py`), whose offered models are entries here, or parts of
features. Fakes are engines for tests and trials; they are only listed among themselves, never beside others.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from tenuto.feature import features
from tenuto.host.manifests import Manifest, here

SEGMENT_TEXT = "segment_text"
WORD_TIMESTAMPS = "word_timestamps"

# What changes an answer, besides the model and the messages.
CHAT_HONOURED = (
    *("temperature", "max_tokens", "max_completion_tokens", "top_p", "stop", "seed"),
    *("presence_penalty", "frequency_penalty", "n", "response_format", "stream", "stream_options"),
)


class EngineEntry(Struct, frozen=True):
    """One model: its name, where its engine is, what it needs and what it honours."""

    model: str
    kind: str
    engine: str
    """`module:Class` in its package, or in the `folder` of its feature."""
    revision: str
    languages: tuple[str, ...]
    honoured: tuple[str, ...]
    """The parameters that change this model's output; all others are accepted and change nothing."""
    licence: str
    notes: tuple[str, ...] = ()
    """What a customer should know before paying: where the model is weak, what it cannot do."""
    parameter_count: int = 0
    """Of the model; 0: not known."""
    demo: bool = False
    """It is too small to rely on."""
    weights: tuple[str, ...] = ()
    rerunnable: bool = True
    """False: every call is paid for, so after a lost outcome it is never rerun automatically."""
    concurrency: int = 1
    """How many runs its host takes at once; a worker claims no more."""
    fake: bool = False
    role: str = ""
    """Which transcript a recognition engine writes: segment_text or word_timestamps."""
    tries: int = 1
    """How many times at most a chunk of a recording is transcribed: again if the transcript is doubtful. An
    engine with one try is trusted; it reports its own doubts."""
    composed_of: tuple["EngineEntry", ...] = ()
    """The models whose engines this one uses, in order; it then has no engine of its own."""
    defaults: Mapping[str, int | float] = field(default_factory=dict)
    """Parameters that the model chooses if the caller leaves them out (images: size, steps, guidance)."""
    memory_mib: int = 0
    """The peak memory of its process; 0: next to nothing, or not known."""
    processors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where its libraries run, as its manifest says; empty: on any machine."""
    limits: Mapping[str, int | float | str] = field(default_factory=dict)
    """Where it stops short of the contract's bounds."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What an engine gets besides its weights: the operator's options and the model's settings."""
    paths: tuple[str, ...] = ()
    """Files and folders that must be on a worker's machine before it offers the model."""
    installed: bool = False
    """The engine is in a package of its own, not in a feature."""
    folder: str = ""
    """The folder of its package, or of the engines of its feature, beside the service."""
    network: bool = False
    """Its process may open sockets, because it calls a server or its manifest says so."""
    load_timeout_s: float = 120.0
    """From the start of its process until it is ready."""


def of_manifest(manifest: Manifest) -> EngineEntry:
    """The entry of an engine that is offered as it is, without settings of an operator."""
    role = next(iter(manifest.roles), "")
    options = {key: option.default for key, option in manifest.options.items()}
    options |= {"model": manifest.model, "role": role, "metered": manifest.metered}
    return EngineEntry(
        model=manifest.model,
        kind=manifest.kind,
        engine=manifest.engine,
        revision=manifest.revision,
        languages=manifest.languages,
        honoured=manifest.honoured,
        licence=manifest.licence.name,
        notes=manifest.notes,
        parameter_count=manifest.parameter_count,
        demo=manifest.demo,
        weights=manifest.weights,
        rerunnable=not manifest.metered,
        concurrency=manifest.concurrency,
        role=role,
        # A metered transcription is never repeated.
        tries=1 if manifest.metered or not manifest.roles else manifest.tries,
        defaults=manifest.defaults,
        memory_mib=manifest.memory_mib,
        processors=manifest.processors,
        limits=manifest.limits,
        options={**options, "honoured": list(manifest.honoured)},
        installed=True,
        folder=manifest.folder,
        network=manifest.network or manifest.upstream,
        load_timeout_s=manifest.load_timeout_s,
    )


def composed(model: str, parts: tuple[EngineEntry, ...], notes: tuple[str, ...] = ()) -> EngineEntry:
    """The entry of a recognition model composed of two others, for the first and the second transcript."""
    first, second = parts
    return EngineEntry(
        model=model,
        kind=first.kind,
        engine="",
        revision="1",
        languages=tuple(language for language in first.languages if language in second.languages),
        honoured=tuple(dict.fromkeys((*second.honoured, *first.honoured))),
        licence=first.licence if first.licence == second.licence else f"{first.licence}, {second.licence}",
        notes=notes,
        rerunnable=first.rerunnable and second.rerunnable,
        composed_of=parts,
    )


_FIRST_KINDS = ("speech", "recognition", "chat", "image")
"""The order in which the catalog lists models; those of all other kinds come after them."""


def _installed() -> tuple[EngineEntry, ...]:
    """The models of engines that are installed beside the service and need no settings, kind by kind."""
    entries = [of_manifest(one) for one in here().manifests.values() if one.offered]
    by_model = {entry.model: entry for entry in entries}
    entries += [
        composed(one.model, tuple(by_model[part] for part in one.composed_of), one.notes)
        for one in here().compositions
    ]
    return tuple(sorted(entries, key=lambda entry: (*_FIRST_KINDS, entry.kind).index(entry.kind)))


def _of_features() -> tuple[EngineEntry, ...]:
    named = (feature.part(feature.engines) for feature in features().values() if feature.engines)
    return tuple(entry for make in named for entry in make())


ENTRIES = (*_installed(), *_of_features())
"""All models that are offered without settings: those of installed engines, and those of features."""


def entries(*, fake: bool) -> tuple[EngineEntry, ...]:
    """The real engines, or the fake ones; never both."""
    return tuple(entry for entry in ENTRIES if entry.fake == fake)


def entry_of(model: str) -> EngineEntry:
    """The entry of a model that exists."""
    return next(entry for entry in ENTRIES if entry.model == model)


def engines_of(entry: EngineEntry) -> tuple[EngineEntry, ...]:
    """The entries whose engines a model uses: its own, or those that it is composed of."""
    return entry.composed_of or (entry,)


def weights_of(entry: EngineEntry) -> tuple[str, ...]:
    """All weights that a model needs, each once."""
    return tuple(dict.fromkeys(name for part in engines_of(entry) for name in part.weights))


def missing_weights(entry: EngineEntry, cache: Path) -> list[str]:
    """Those of them that are not in this folder, or not verified."""
    checks = [feature.part(feature.weights) for feature in features().values() if feature.weights]
    return [name for name in weights_of(entry) if not all(check(cache, name) for check in checks)]
