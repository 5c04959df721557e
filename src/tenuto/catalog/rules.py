"""Models as the service offers them: an engine's entry with the operator's settings. Pure."""

from dataclasses import dataclass

from tenuto.config import OwnPrice, Price, Settings, UpstreamSettings
from tenuto.engines.registry import CHAT_HONOURED, ENTRIES, EngineEntry, entries
from tenuto.errors import SettingsInvalid

MAX_START_FAILURES = 3
"""An engine that failed to start so often in a row is not offered by that worker any more."""

WORKER_AWAY_MS = 600_000
"""A worker unseen for longer offers nothing; shorter absences (a restart, a deploy) refuse no job."""

PRICES = {
    "speech": Price(),
    "recognition": Price("audio_minute", price_micros=50_000, hold_micros=6_000_000),
    "image": Price("job", price_micros=50_000, hold_micros=50_000),
    "chat": Price(),
}
"""What a kind costs by contract, unless the operator says otherwise. 6 CNY pay 120 minutes, the longest."""

LONGEST_MINUTES = 120
"""A price by the minute is held for so many, unless the operator says how much is held."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model under its public name."""

    name: str
    kind: str
    interface: str
    lane: str
    price: Price
    rerunnable: bool
    entry: EngineEntry
    upstream: UpstreamSettings | None = None
    """Where a chat model's answers come from, when it is not an engine of ours."""


def models(settings: Settings) -> dict[str, Model]:
    """The enabled models by name, in the order in which they are listed."""
    _refuse_unknown(settings)
    offered = {}
    for entry in entries(fake=settings.engines == "fake"):
        own = settings.models.get(entry.model)
        if own is not None and not own.enabled:
            continue
        price = _price(entry, own.price if own is not None else None)
        offered[entry.model] = Model(
            name=entry.model,
            kind=entry.kind,
            interface="chat" if entry.kind == "chat" else "jobs",
            lane=entry.kind,
            price=price,
            rerunnable=entry.rerunnable,
            entry=entry,
        )
    return offered | _upstreams(settings)


def _upstreams(settings: Settings) -> dict[str, Model]:
    """Chat models of other servers, as the operator named them."""
    offered = {}
    for name, own in settings.models.items():
        if own.upstream is None or not own.enabled:
            continue
        entry = EngineEntry(
            model=name,
            kind="chat",
            engine="",
            # What it is there is the operator's own matter.
            revision="upstream",
            languages=(),
            honoured=CHAT_HONOURED,
            licence="",
        )
        offered[name] = Model(name, "chat", "chat", "chat", Price(), False, entry, own.upstream)
    return offered


def _price(entry: EngineEntry, own: OwnPrice | None) -> Price:
    """What the operator says of a price goes before what the kind costs; the rest is the kind's."""
    usual = PRICES[entry.kind]
    if own is None:
        return usual
    if entry.kind == "chat":
        raise SettingsInvalid(
            f'settings are wrong:\n  models."{entry.model}".price: chats are free of charge'
        )
    unit = own.unit or usual.unit
    price = usual.price_micros if own.price_micros is None else own.price_micros
    hold = own.hold_micros
    if hold is None:
        hold = price * (LONGEST_MINUTES if unit == "audio_minute" else 1)
    if unit == "job" and hold < price:
        raise SettingsInvalid(
            f'settings are wrong:\n  models."{entry.model}".hold: is below the price of a job'
        )
    return Price(unit, price, hold)


def _refuse_unknown(settings: Settings) -> None:
    """A misspelt table would leave its model free of charge, in silence."""
    known = [entry.model for entry in ENTRIES]
    ours = [name for name in known if name in settings.models and settings.models[name].upstream]
    if ours:
        raise SettingsInvalid(
            f"settings are wrong:\n  models: {', '.join(ours)} is Tenuto's own; name the upstream's otherwise"
        )
    unknown = [name for name, own in settings.models.items() if name not in known and not own.upstream]
    if unknown:
        raise SettingsInvalid(
            f"settings are wrong:\n  models: there is no {', '.join(unknown)}; there are {', '.join(known)}"
        )
