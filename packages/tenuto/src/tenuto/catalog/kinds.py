"""What a kind of job is, and which kinds there are.

A kind is a folder with a `KIND`: our own are in `tenuto.kinds`, others are packages that are installed beside
Tenuto. They import nearly every package of the service, so nothing below imports them: they are looked up by
name, as engines are, and used through their `Kind`.
"""

import functools
import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from tenuto.accounts.restrictions import Caller
from tenuto.bodies.envelope import Envelope
from tenuto.bodies.fields import Field
from tenuto.config import Price, Settings
from tenuto.db.database import Transaction
from tenuto.errors import Fault, SettingsInvalid
from tenuto.hosts.host import HostResult

GROUP = "tenuto.kinds"
"""Our own folder of kinds, and the group of entry points under which other packages register theirs."""


CHAT = "chat"
"""What the engines of chat models have instead of a kind: chats are not jobs."""
EMBEDDING = "embedding"
"""The same of models that give vectors."""
INTERFACES = {CHAT: "chat", EMBEDDING: "embeddings"}
"""What is called for models that do no jobs."""


class Binding(Struct, frozen=True):
    """What an accepted job keeps, whatever happens to the things that it refers to."""

    parameters: dict[str, Any]
    """Every parameter with the value that holds for the job; every attempt's engine gets these."""
    recordings: tuple[str, ...] = ()
    """The blobs of voices, which the job needs until it is final."""
    characters: int = 0
    """Of the text that is spoken, for the account's usage."""
    text: str = ""
    """What people recognise and find the job by: the words that were asked for, the name of a file."""
    voice_id: str | None = None
    """The voice that was asked for."""


class SuppliedResult(Struct, frozen=True):
    """Bytes that an operator supplies as a job's result."""

    content: bytes
    media_type: str
    metadata: dict[str, Any]
    """What callers see beside the result."""
    duration_ms: int | None
    """What a price by the minute charges."""


class Kind(Struct, frozen=True, kw_only=True):
    """All that the service has to know of a kind of job. Its lane has its name."""

    name: str
    media_type: str
    """Of its results."""
    fields: tuple[Field, ...]
    """Its parameters: documents, `openapi.yaml`, the client and the studio are tested against them."""
    check: Callable[[Envelope], tuple[Any, list[Fault]]]
    """From a sound top level to the parameters in the kind's own struct (None if one is faulty), and all that
    is wrong with them or with what stands beside them."""
    references: Callable[[Transaction, Caller, Envelope], list[Fault]]
    """The ids in a body, faulty or not, that name nothing this caller may use."""
    bind: Callable[[Transaction, Caller, Envelope, Any, Mapping[str, Any]], Binding]
    """Looks up what checked parameters refer to. The last argument: what the model chooses where the caller
    leaves it out. InvalidRequest: a reference is gone since `references` looked."""
    run: Callable[[Any], HostResult]
    """One attempt, of a `worker.calls.EngineCalls`: a result that was checked, its bytes not yet durable.
    Raises ResultInvalid, and what hosts raise."""
    read_result: Callable[[bytes, dict[str, Any]], SuppliedResult]
    """An operator's file as the result of a job with these frozen parameters. OperatorError: it is not one;
    ValueError, TypeError, KeyError: the parameters are not what this kind froze."""
    price: Price
    """What a job costs by contract, unless the operator sets another price."""
    slots: Callable[[Settings], int]
    """How many jobs run at once, over all machines."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The most that a job takes, as the catalog shows it."""
    has_duration: bool = False
    """Whether its results last: only they can cost by the minute."""
    takes_inputs: bool = False
    """Whether its jobs name uploaded inputs."""
    takes_voices: bool = False
    """Whether its jobs name voices: who may use none of its models has no use for voices."""
    jobs_at_once: int | None = None
    """How many jobs of one model a worker has under way; None: as many as the engine runs at once."""


@functools.cache
def kinds() -> Mapping[str, Kind]:
    """Every kind by name: ours in the order in which they are listed, then those of other packages."""
    own: tuple[Kind, ...] = importlib.import_module(GROUP).KINDS
    added = [point.load() for point in importlib.metadata.entry_points(group=GROUP)]
    known: dict[str, Kind] = {}
    for kind in (*own, *added):
        if kind.name in known:
            raise SettingsInvalid(f"two of the installed kinds of job are called {kind.name}; uninstall one")
        known[kind.name] = kind
    return MappingProxyType(known)


def is_known(kind: str) -> bool:
    """Whether models of this kind can be offered: an engine may be installed whose kind is not."""
    return kind in INTERFACES or kind in kinds()


def slots(settings: Settings) -> dict[str, int]:
    """How many jobs of each lane run at once, over all machines."""
    return {name: kind.slots(settings) for name, kind in kinds().items()}
