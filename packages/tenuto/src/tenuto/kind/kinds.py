"""What a kind of job is, and which kinds there are.

A kind is a part of a feature (`tenuto.feature`), or is installed next to Tenuto alone. Kinds import nearly
every package of the service, so nothing below imports them: they are looked up by name, as engines are, and
used through their `Kind`.
"""

import functools
import importlib.metadata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from tenuto.account.caller import Caller
from tenuto.config import Price, Settings
from tenuto.db.database import Transaction
from tenuto.errors import Fault, SettingsInvalid
from tenuto.feature import features
from tenuto.host.host import HostResult
from tenuto.kind.envelope import Envelope
from tenuto.rules import Field

GROUP = "tenuto.kinds"
"""The entry point group under which other packages register kinds that need nothing else of a feature."""


CHAT = "chat"
"""What the engines of chat models have instead of a kind of job: chats are not jobs."""
EMBEDDING = "embedding"
"""The same for models that return vectors."""
INTERFACES = {CHAT: "chat", EMBEDDING: "embeddings"}
"""The interface through which models that run no jobs are called."""


class Binding(Struct, frozen=True):
    """What is frozen into an accepted job, whatever happens to the things that it refers to."""

    parameters: dict[str, Any]
    """All parameters, with defaults filled in, as the engine gets them in every attempt."""
    recordings: tuple[str, ...] = ()
    """The blobs of voices, which the job needs until it is final."""
    characters: int = 0
    """The length of the spoken text, for the account's usage."""
    text: str = ""
    """What people recognise and find the job by: the requested words, or the name of a file."""
    voice_id: str | None = None
    """The requested voice."""


class SuppliedResult(Struct, frozen=True):
    """Bytes that an operator supplies as a job's result."""

    content: bytes
    media_type: str
    metadata: dict[str, Any]
    """What callers see next to the result."""
    duration_ms: int | None
    """The duration that a price per minute charges."""


class Kind(Struct, frozen=True, kw_only=True):
    """Everything that the service needs to know about a kind of job. Its lane has the same name."""

    name: str
    media_type: str
    """Of its results."""
    fields: tuple[Field, ...]
    """Its parameters: documents, `openapi.yaml`, the client and the studio are tested against them."""
    check: Callable[[Envelope], tuple[Any, list[Fault]]]
    """Turns a valid envelope into the parameters in the kind's own struct (None if one is faulty) and all
    faults in them and in the rest of the envelope."""
    references: Callable[[Transaction, Caller, Envelope], list[Fault]]
    """The ids in a body, valid or not, that name nothing this caller may use."""
    bind: Callable[[Transaction, Caller, Envelope, Any, Mapping[str, Any]], Binding]
    """Looks up what checked parameters refer to. The last argument: the model's values for what the caller
    left out. InvalidRequest: a reference has disappeared since `references` looked."""
    run: Callable[[Any], HostResult]
    """Runs one attempt, given a `worker.engine_calls.EngineCalls`: returns a checked result whose bytes are
    not yet durable. Raises ResultInvalid, and what hosts raise."""
    read_result: Callable[[bytes, dict[str, Any]], SuppliedResult]
    """An operator's file as the result of a job with these frozen parameters. OperatorError: it is not one;
    ValueError, TypeError, KeyError: the parameters are not what this kind froze."""
    price: Price
    """What a job costs by contract, unless the operator sets another price."""
    slots: Callable[[Settings], int]
    """How many jobs run at once, over all machines."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The limits of a job, as the catalog shows them."""
    has_duration: bool = False
    """Whether its results have a duration: only then can it be priced per minute."""
    takes_inputs: bool = False
    """Whether its jobs name uploaded inputs."""
    takes_voices: bool = False
    """Whether its jobs name voices: a caller who may use none of its models has no use for voices."""
    jobs_at_once: int | None = None
    """How many jobs of one model a worker runs at once; None: as many as the engine does."""
    place: int = 100
    """Where it stands in lists: by this number, then by name."""


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """All kinds by name, in the order of their places."""
    own = [feature.part(feature.kind) for feature in features().values() if feature.kind]
    added = [point.load() for point in importlib.metadata.entry_points(group=GROUP)]
    known: dict[str, Kind] = {}
    for kind in sorted((*own, *added), key=lambda kind: (kind.place, kind.name)):
        if kind.name in known:
            raise SettingsInvalid(f"two of the installed kinds of job are called {kind.name}; uninstall one")
        known[kind.name] = kind
    return MappingProxyType(known)


def is_known(kind: str) -> bool:
    """Whether models of this kind can be offered: an engine may be installed without its kind."""
    return kind in INTERFACES or kind in kinds()


def slots(settings: Settings) -> dict[str, int]:
    """How many jobs of each lane run at once, over all machines."""
    return {name: kind.slots(settings) for name, kind in kinds().items()}
