"""Chat and embedding models on other servers, as the operator configured them."""

from collections.abc import Mapping

from tenuto.config import IMAGE_ADDRESSES, Settings
from tenuto.features.chat.chat_body import NEEDS
from tenuto.host.registry import CHAT_HONOURED, EngineEntry
from tenuto.kind.kinds import CHAT, EMBEDDING
from tenuto.kind.model import Model


def catalog_entries(
    settings: Settings, known: Mapping[str, EngineEntry], faults: list[str]
) -> dict[str, EngineEntry]:
    """An entry for each server that is called instead of an engine."""
    offered = {}
    for name, own in settings.models.items():
        if own.upstream is None or own.adapter is not None or not own.enabled:
            continue
        kind, honoured = CHAT, (*CHAT_HONOURED, *_fields_of(own.upstream.takes))
        if own.upstream.serves == "embeddings":
            kind, honoured = EMBEDDING, ("encoding_format", "dimensions")
        offered[name] = EngineEntry(
            model=name,
            kind=kind,
            engine="",
            # Which revision the server runs is up to the operator.
            revision="upstream",
            languages=(),
            honoured=tuple(dict.fromkeys(honoured)),
            licence="",
            rerunnable=False,
        )
    return offered


def taken_by(model: Model) -> tuple[str, ...]:
    """What a chat may ask of a model besides text."""
    if model.upstream is None:
        return ()
    more = (IMAGE_ADDRESSES,) if model.upstream.image_addresses else ()
    return (*model.upstream.takes, *more)


def _fields_of(takes: tuple[str, ...]) -> list[str]:
    """The fields that a model with these features honours."""
    fields = [name for name, feature in NEEDS.items() if feature in takes]
    return [*fields, "image_url"] if "images" in takes else fields
