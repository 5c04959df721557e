"""Models as the service offers them: an engine's entry with the operator's settings."""

from msgspec import Struct
from msgspec.structs import replace

from tenuto.config import IMAGE_ADDRESSES, ModelSettings, OwnPrice, Price, Settings, UpstreamSettings
from tenuto.errors import SettingsInvalid
from tenuto.features.chat.body import NEEDS
from tenuto.features.models import adapters
from tenuto.features.models.additions import additions
from tenuto.host.registry import CHAT_HONOURED, ENTRIES, EngineEntry
from tenuto.host.registry import entries as known
from tenuto.kind.kinds import CHAT, EMBEDDING, INTERFACES, is_known, kinds

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

    @property
    def takes(self) -> tuple[str, ...]:
        """What a chat may ask of it besides text."""
        if self.upstream is None:
            return ()
        more = (IMAGE_ADDRESSES,) if self.upstream.image_addresses else ()
        return (*self.upstream.takes, *more)


def models(settings: Settings) -> dict[str, Model]:
    """The enabled models by name, in listing order. SettingsInvalid names all faults."""
    faults = _unknown(settings)
    entries = {entry.model: entry for entry in known(fake=settings.engines == "fake") if is_known(entry.kind)}
    entries |= adapters.entries(settings.models, faults)
    for name, own in settings.models.items():
        if own.composed_of and own.enabled:
            entry = adapters.composed(name, own, entries, faults)
            entries |= {} if entry is None else {name: entry}
    offered = {}
    for name, entry in entries.items():
        own = settings.models.get(name, ModelSettings())
        if own.enabled:
            offered[name] = _offered(entry, own, faults, is_free=settings.prices == "free")
    upstreams = _upstreams(settings, faults)
    if faults:
        raise SettingsInvalid("settings are wrong:\n  " + "\n  ".join(faults))
    return offered | upstreams


def at_price(model: Model, price_micros: int | None) -> Model:
    """The model at the price that the operator set in the studio; None: at the settings file's price."""
    if price_micros is None or model.is_free or model.interface != "jobs":
        return model
    minutes = LONGEST_MINUTES if model.price.unit == "audio_minute" else 1
    return replace(model, price=Price(model.price.unit, price_micros, price_micros * minutes))


def _offered(entry: EngineEntry, own: ModelSettings, faults: list[str], *, is_free: bool) -> Model:
    return Model(
        name=entry.model,
        kind=entry.kind,
        interface=INTERFACES.get(entry.kind, "jobs"),
        lane=entry.kind,
        price=_free(entry, own.price, faults) if is_free else _price(entry, own.price, faults),
        rerunnable=entry.rerunnable,
        entry=entry,
        upstream=own.upstream,
        is_free=is_free,
    )


def _upstreams(settings: Settings, faults: list[str]) -> dict[str, Model]:
    """Chat and embedding models on other servers, as the operator configured them."""
    offered = {}
    for name, own in settings.models.items():
        if own.upstream is None or own.adapter is not None or not own.enabled:
            continue
        kind, honoured = CHAT, (*CHAT_HONOURED, *_fields_of(own.upstream.takes))
        if own.upstream.serves == "embeddings":
            kind, honoured = EMBEDDING, ("encoding_format", "dimensions")
        entry = EngineEntry(
            model=name,
            kind=kind,
            engine="",
            # Which revision the server runs is up to the operator.
            revision="upstream",
            languages=(),
            honoured=tuple(dict.fromkeys(honoured)),
            licence="",
        )
        is_free = settings.prices == "free"
        if is_free and own.upstream.has_price:
            faults.append(f'models."{name}": has a price, and the setting prices is `free`; remove one')
        price = _token_price(own.upstream)
        offered[name] = Model(name, kind, INTERFACES[kind], kind, price, False, entry, own.upstream, is_free)
    return offered


def _token_price(upstream: UpstreamSettings) -> Price:
    if not upstream.has_price:
        return Price()
    return Price(
        MILLION_TOKENS,
        upstream.input_price_micros,
        output_price_micros=upstream.output_price_micros,
    )


def _fields_of(takes: tuple[str, ...]) -> list[str]:
    """The fields that a model with these features honours."""
    fields = [name for name, feature in NEEDS.items() if feature in takes]
    return [*fields, "image_url"] if "images" in takes else fields


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


def _unknown(settings: Settings) -> list[str]:
    """Faults for tables of unknown models: a misspelt name would leave the model without its settings.

    A model that could be added is known: its settings stay when it is removed, and wait for it.
    """
    ours = [entry.model for entry in ENTRIES]
    faults, strangers = [], []
    for name, own in settings.models.items():
        if own.adapter is not None and adapters.offers(own.adapter.name, name):
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
