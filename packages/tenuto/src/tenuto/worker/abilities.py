"""Which models a worker can run, and why not the others: checked once, before it claims anything."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tenuto.config import ModelSettings, Settings
from tenuto.host.process import WITHOUT_RAY, ray_driver
from tenuto.host.registry import EngineEntry, engines_of, missing_weights
from tenuto.kind.kinds import slots
from tenuto.kind.model import Model
from tenuto.worker.engines import expected_mib, missing_here
from tenuto_engine import processor


class Ability(Struct, frozen=True):
    """One model, and whether this worker can run it."""

    model: str
    lane: str
    slots: int
    """The slots of its lane, over all workers."""
    host: str
    """child, ray, or both where a model's engines differ."""
    memory_mib: int
    """The memory that its engines take here, by their manifests; 0: little, or unknown."""
    reason: str | None
    """Why it is not offered; None if it is."""


def abilities_of(settings: Settings, models: Mapping[str, Model], wanted: Sequence[str]) -> list[Ability]:
    """Whether this worker can run each wanted model."""
    return [_ability(models[name], settings) for name in wanted]


def _ability(model: Model, settings: Settings) -> Ability:
    engines = engines_of(model.entry)
    hosts = ["child" if _own(entry, settings).ray is None else "ray" for entry in engines]
    memory_mib = sum(expected_mib(entry, settings) for entry in engines)
    return Ability(
        model=model.name,
        lane=model.lane,
        slots=slots(settings)[model.lane],
        host=" and ".join(dict.fromkeys(hosts)),
        memory_mib=memory_mib,
        reason=_reason(model, settings, hosts, memory_mib),
    )


def _reason(model: Model, settings: Settings, hosts: Sequence[str], memory_mib: int) -> str | None:
    for entry, host in zip(engines_of(model.entry), hosts, strict=True):
        if host == "child" and (fault := processor.fault(entry.processors)):
            return fault
    if weights := missing_weights(model.entry, settings.cache):
        return f"its weights are not here ({', '.join(weights)}): tenuto models pull"
    if lacking := missing_here(model, settings):
        return f"not on this machine: {', '.join(lacking)}"
    if "ray" in hosts and ray_driver() is None:
        return WITHOUT_RAY
    limit_mib = settings.engine_memory_mib
    if 0 < limit_mib < memory_mib:
        return f"it takes {memory_mib} MiB, and engine_memory_mib is {limit_mib}"
    return None


def _own(entry: EngineEntry, settings: Settings) -> ModelSettings:
    return settings.models.get(entry.model, ModelSettings())
