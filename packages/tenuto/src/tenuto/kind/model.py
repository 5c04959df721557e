"""Models as the service offers them: an engine's entry with the operator's settings."""

from msgspec import Struct
from msgspec.structs import replace

from tenuto.config import ModelSettings, OwnPrice, Price, Settings, UpstreamSettings
from tenuto.errors import SettingsInvalid
from tenuto.feature import features
from tenuto.host.registry import EngineEntry
from tenuto.host.registry import entries as known
from tenuto.kind.kinds import INTERFACES, is_known, kinds

MAX_START_FAILURES = 3
"""After this many failures in a row to start the engine, a worker's offer no longer counts."""

MILLION_TOKENS = "million_tokens"
"""The unit in which calls are priced, with one price for input and one for output."""

LONGEST_MINUTES = 120
"""A price per minute is held for this many minutes, unless the operator sets the hold."""


class Model(Struct, frozen=True):
    """One model under its public name."""

    name: str
    kind: str
    interface: str
    lane: str
    price: Price
    rerunnable: bool
    entry: EngineEntry
    upstream: UpstreamSettings | None = None
    """The server that is called for it; for a chat or embedding model, instead of an engine."""
    is_free: bool = False
    """Whether the setting `prices` rules out any price."""


def models(settings: Settings) -> dict[str, Model]:
    """The enabled models by name, in listing order. SettingsInvalid names all faults."""
    faults: list[str] = []
    entries = {entry.model: entry for entry in known(fake=settings.engines == "fake") if is_known(entry.kind)}
    for feature in features().values():
        if feature.entries:
            entries |= feature.part(feature.entries)(settings, entries, faults)
    offered = {}
    for name, entry in entries.items():
        own = settings.models.get(name, ModelSettings())
        if own.enabled:
            offered[name] = _offered(entry, own, faults, is_free=settings.prices == "free")
    if faults:
        raise SettingsInvalid("settings are wrong:\n  " + "\n  ".join(faults))
    return offered


def at_price(model: Model, price_micros: int | None) -> Model:
    """The model at the price that the operator set in the studio; None: at the settings file's price."""
    if price_micros is None or model.is_free or model.interface != "jobs":
        return model
    minutes = LONGEST_MINUTES if model.price.unit == "audio_minute" else 1
    return replace(model, price=Price(model.price.unit, price_micros, price_micros * minutes))


def _offered(entry: EngineEntry, own: ModelSettings, faults: list[str], *, is_free: bool) -> Model:
    interface = INTERFACES.get(entry.kind, "jobs")
    if interface != "jobs" and own.upstream is not None and own.adapter is None:
        price = _token_price(entry, own.upstream, faults, is_free=is_free)
    else:
        price = _free(entry, own.price, faults) if is_free else _price(entry, own.price, faults)
    return Model(
        name=entry.model,
        kind=entry.kind,
        interface=interface,
        lane=entry.kind,
        price=price,
        rerunnable=entry.rerunnable,
        entry=entry,
        upstream=own.upstream,
        is_free=is_free,
    )


def _token_price(
    entry: EngineEntry, upstream: UpstreamSettings, faults: list[str], *, is_free: bool
) -> Price:
    if not upstream.has_price:
        return Price()
    if is_free:
        faults.append(f'models."{entry.model}": has a price, and the setting prices is `free`; remove one')
    return Price(
        MILLION_TOKENS,
        upstream.input_price_micros,
        output_price_micros=upstream.output_price_micros,
    )


def _free(entry: EngineEntry, own: OwnPrice | None, faults: list[str]) -> Price:
    """A price of 0, as the operator wants no prices; setting one as well is a mistake."""
    if own is not None:
        faults.append(f'models."{entry.model}".price: the setting prices is `free`; remove one of the two')
    kind = kinds().get(entry.kind)
    return Price() if kind is None else Price(kind.price.unit, 0, 0)


def _price(entry: EngineEntry, own: OwnPrice | None, faults: list[str]) -> Price:
    """The operator's price, completed from the kind's."""
    kind = kinds().get(entry.kind)
    usual = Price() if kind is None else kind.price
    if own is None:
        return usual
    if kind is None:
        faults.append(f'models."{entry.model}".price: a chat or embedding model of our own is free of charge')
    unit = own.unit or usual.unit
    price = usual.price_micros if own.price_micros is None else own.price_micros
    hold = own.hold_micros
    if hold is None:
        hold = price * (LONGEST_MINUTES if unit == "audio_minute" else 1)
    if unit == "audio_minute" and not (kind and kind.has_duration):
        faults.append(
            f'models."{entry.model}".unit: audio_minute means nothing for {entry.kind}: it has no duration;'
            " write job"
        )
    if unit == "job" and hold < price:
        faults.append(f'models."{entry.model}".hold: is below the price of a job')
    elif price > 0 and hold == 0:
        faults.append(f'models."{entry.model}".hold: is 0, so that nothing could ever be charged; raise it')
    return Price(unit, price, hold)
