"""What an operator may set for one model, in the file's table `[models."NAME"]`, each declared once.

Only types and ranges are checked here; `catalog` checks whether the settings fit an engine's manifest.
`docs/operations/running.md` shows these declarations (`scripts/settings_table.py` writes its table).
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from tenuto.config.rules import (
    Amount,
    Boolean,
    Choice,
    Declaration,
    Form,
    Integer,
    Number,
    Some,
    Table,
    Text,
    Texts,
    declared,
    no_setting,
)

CHAT_FEATURES = ("tools", "images", "json", "logprobs", "logit_bias", "n", "names", "reasoning_effort")
"""What a chat may ask of a model besides text."""
IMAGE_ADDRESSES = "image_addresses"
"""Pictures that are elsewhere, which is no such feature by itself: the operator has to allow it."""
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9./_~-]*)?\Z")
# Ray's client protocol (ray://) is not allowed: actors would not end with the connection.
_RAY_ADDRESS = re.compile(r"(auto|[A-Za-z0-9.\[\]:_-]+:[0-9]{1,5})\Z")


def _integer(low: int, high: int) -> Integer:
    return Integer(low, high, may_be_text=False)


class Price(Struct, frozen=True):
    """What a model costs per job, minute of audio or million tokens, and what a job holds."""

    unit: str = "job"
    price_micros: int = 0
    """Per million tokens: the price of input."""
    hold_micros: int = 0
    """Held until the job ends. What a call holds depends on its request."""
    output_price_micros: int = 0
    """Per million tokens: the price of output."""


class OwnPrice(Struct, frozen=True):
    """A model's price as the operator sets it; None: the default of the model's kind."""

    unit: Annotated[
        str | None,
        Choice(("job", "audio_minute")),
        "`job`, or `audio_minute` (speech, recognition); left out: as the kind has it",
    ] = None
    price_micros: Annotated[
        int | None, Amount(in_micros=True), "CNY, as text, so that no float touches money", "price"
    ] = None
    hold_micros: Annotated[
        int | None,
        Amount(in_micros=True),
        "CNY, as text; held while the job is open, and a charge is never above it",
        "hold",
    ] = None


class UpstreamSettings(Struct, frozen=True):
    """An OpenAI-compatible server behind a model. The key itself is never in a setting."""

    url: Annotated[
        str,
        Form(
            lambda text: bool(_URL.match(text)),
            "an address such as https://host/v1, without a user or a query",
            may_be_secret=True,
        ),
        "the address, up to `/v1`, of a server with OpenAI's interfaces; for jobs together with `adapter`",
        "upstream",
    ] = ""
    model: Annotated[
        str | None, Text(), "the model's name there; left out: its name here", "upstream_model"
    ] = None
    key_variable: Annotated[
        str | None, Text(), "the variable that holds the server's key, read at start", "upstream_key_variable"
    ] = None
    key_file: Annotated[
        str | None,
        Text(),
        "the file that holds it instead; with neither, no key is sent",
        "upstream_key_file",
    ] = None
    connections: Annotated[
        int, _integer(1, 10_000), "{range} chats, or jobs, that are sent there at once; further ones wait"
    ] = 64
    serves: Annotated[
        Literal["chat", "embeddings"],
        Choice(("chat", "embeddings")),
        "without `adapter`: what the model is for, `chat` or `embeddings`",
    ] = "chat"
    takes: Annotated[
        tuple[str, ...],
        Some(CHAT_FEATURES),
        "of a chat model: what it accepts besides text, a list of any of "
        + ", ".join(f"`{name}`" for name in CHAT_FEATURES)
        + "; left out: all of them, as far as the server does",
    ] = CHAT_FEATURES
    input_price_micros: Annotated[
        int,
        Amount(in_micros=True),
        "without `adapter`: CNY for a million input tokens, as text; left out: free of charge",
        "input_price",
    ] = 0
    output_price_micros: Annotated[
        int,
        Amount(in_micros=True),
        "of a chat model: CNY for a million output tokens, as text; left out: free of charge",
        "output_price",
    ] = 0
    longest_answer: Annotated[
        int,
        _integer(1, 10_000_000),
        "of a chat model with a price: {range} tokens that are held for an answer for which no limit is "
        "asked, and sent to the server as its limit",
    ] = 4096
    limit_name: Annotated[
        Literal["max_tokens", "max_completion_tokens"],
        Choice(("max_tokens", "max_completion_tokens")),
        "of a chat model with a price: what its server calls that limit, `max_tokens` or "
        "`max_completion_tokens`",
    ] = "max_tokens"
    when_left: Annotated[
        Literal["finish", "stop"],
        Choice(("finish", "stop")),
        "of a model with a price: whether an answer whose caller leaves is read to its end and charged in "
        "full (`finish`), or its connection is closed (`stop`), for a server that then neither goes on nor "
        "charges you; left out: `finish`",
    ] = "finish"
    image_addresses: Annotated[
        bool,
        Boolean(),
        "of a chat model: whether pictures in messages may be `https:` addresses, which its server opens "
        "from within your network; left out: only `data:` URLs",
    ] = False

    @property
    def has_price(self) -> bool:
        """Whether its calls are charged."""
        return self.input_price_micros > 0 or self.output_price_micros > 0


class AdapterSettings(Struct, frozen=True):
    """Which adapter runs a model, and with which settings; None: the default of the adapter's manifest."""

    name: Annotated[
        str, Text(), "the engine that runs the model, by its name: see [engines](engines.md)", "adapter"
    ] = ""
    accept_licence: Annotated[
        str | None, Text(), "the name of the licence, which you have read, if the adapter requires that"
    ] = None
    revision: Annotated[str | None, Text(), "which weights they are, as results name them"] = None
    role: Annotated[
        str | None,
        Text(),
        "which transcript a recognition engine writes: `segment_text` or `word_timestamps`",
    ] = None
    honoured: Annotated[tuple[str, ...] | None, Texts(), "fewer parameters than the adapter honours"] = None
    languages: Annotated[tuple[str, ...] | None, Texts(), "the languages that it knows"] = None
    defaults: Annotated[Mapping[str, int | float], Table(), "values of parameters that a job leaves out"] = (
        field(default_factory=dict)
    )
    options: Annotated[Mapping[str, Any], Table(), "the adapter's own options"] = field(default_factory=dict)
    metered: Annotated[
        bool | None,
        Boolean(),
        "each call is charged for: it is made once, and a doubtful outcome waits for the operator",
    ] = None
    memory_mib: Annotated[int | None, _integer(1, 1 << 30), "{range} MiB that its process takes"] = None
    load_timeout_s: Annotated[
        int | None, _integer(1, 86_400), "{range}; from the start of its process until its weights are loaded"
    ] = None


class RaySettings(Struct, frozen=True):
    """An engine's actor in a Ray pool."""

    address: Annotated[
        str,
        Form(lambda text: bool(_RAY_ADDRESS.match(text)), "auto, or an address such as 10.0.0.1:6379"),
        "the pool's head, as `host:port`; `auto`: that of the node on this machine",
        "ray_address",
    ] = "auto"
    cpus: Annotated[
        float, Number(0, 1024, may_be_text=False), "{range} CPUs that the pool reserves", "ray_cpus"
    ] = 1.0
    gpus: Annotated[
        float, Number(0, 1024, may_be_text=False), "{range} GPUs that the pool reserves", "ray_gpus"
    ] = 0.0
    wait_s: Annotated[
        int, _integer(1, 86_400), "{range}; how long a load waits until the pool has them free", "ray_wait_s"
    ] = 60


class ModelSettings(Struct, frozen=True):
    """What an operator may set for one model."""

    enabled: Annotated[bool, Boolean(), "`false`: the model is not offered"] = True
    interpreter: Annotated[
        str | None, Text(), "the Python that runs the engine; left out: the one that runs Tenuto"
    ] = None
    network: Annotated[
        bool,
        Boolean(),
        "`true`: the engine's process may open sockets although it calls no server; see [hosts](hosts.md)",
    ] = False
    warm: Annotated[bool, Boolean(), "load the weights when the worker starts, not on the first job"] = False
    threads: Annotated[
        int, _integer(0, 1024), "{range} threads of the engine; 0: as many as there are cores, two at most"
    ] = 0
    answer_tokens: Annotated[
        int,
        _integer(1, 10_000_000),
        "an embedded chat model: {range} tokens of an answer for which no limit is asked",
    ] = 512
    repeat_penalty: Annotated[
        float,
        Number(1, 2, may_be_text=False),
        "an embedded chat model: {range}; how much less likely a token becomes once it was used, in an "
        "answer for which no other penalty is asked; 1: not at all",
    ] = 1.1
    composed_of: Annotated[
        tuple[str, ...], Texts(), "the two recognition models that write the transcripts of this one"
    ] = ()
    host: Annotated[
        Literal["child", "ray"],
        Choice(("child", "ray")),
        "where the engine runs: `child`, a process of the worker, or `ray`, a pool: see [hosts](hosts.md)",
    ] = "child"
    price: OwnPrice | None = None
    """None: what the model's kind costs by contract."""
    upstream: UpstreamSettings | None = None
    adapter: AdapterSettings | None = None
    """None: the engine is Tenuto's own."""
    ray: RaySettings | None = None
    """None: its engine runs in a child process of the worker."""


_GROUPS = (ModelSettings, OwnPrice, UpstreamSettings, AdapterSettings, RaySettings)


def _keys(group: type) -> dict[str, Declaration]:
    return {one.named or name: one for name, one in declared(group).items()}


DECLARED: Mapping[str, Declaration] = {key: one for group in _GROUPS for key, one in _keys(group).items()}
"""By the key in a model's table."""


def read_models(value: Any, faults: list[str]) -> dict[str, ModelSettings]:
    """The tables of the file; adds what is wrong to the faults."""
    models: dict[str, ModelSettings] = {}
    if not isinstance(value, dict):
        faults.append('models: write one table per model, [models."NAME"]')
        return models
    for name, table in value.items():
        where = f'models."{name}"'
        if not isinstance(table, dict):
            faults.append(f"{where}: is not a table")
            continue
        faults.extend(f"{where}.{key}: {no_setting(key, DECLARED)}" for key in table if key not in DECLARED)
        faults.extend(_contradictions(where, table))
        models[name] = _model(where, table, faults)
    return models


def _model(where: str, table: dict[str, Any], faults: list[str]) -> ModelSettings:
    def read(group: type) -> dict[str, Any] | None:
        """The values of a group's settings; None if the table has none of them."""
        named = {one.named or name: (name, one.rule) for name, one in declared(group).items()}
        values = {
            name: rule.read(f"{where}.{key}", table[key], faults)
            for key, (name, rule) in named.items()
            if key in table
        }
        return values or None

    price, upstream, adapter = read(OwnPrice), read(UpstreamSettings), read(AdapterSettings)
    in_ray = read(RaySettings) or {}
    own = ModelSettings(
        **read(ModelSettings) or {},
        price=OwnPrice(**price) if price else None,
        upstream=UpstreamSettings(**upstream) if upstream else None,
        adapter=AdapterSettings(**adapter) if adapter else None,
        ray=RaySettings(**in_ray) if table.get("host") == "ray" else None,
    )
    if own.price is not None and own.price.unit != "audio_minute":
        amount, hold = own.price.price_micros, own.price.hold_micros
        if amount is not None and hold is not None and hold < amount:
            faults.append(f"{where}.hold: is below the price of a job, so that it could never be charged")
    return own


def _contradictions(where: str, table: dict[str, Any]) -> list[str]:
    """The faults of settings in a table that need or exclude others."""
    in_ray, upstream, adapter = _keys(RaySettings), _keys(UpstreamSettings), _keys(AdapterSettings)
    faults = []
    if "composed_of" in table:
        faults += _meaningless(
            where, table, ("host", *in_ray), "a model of others' engines; set it for those"
        )
    if table.get("host") != "ray":
        faults += [f'{where}.{key}: means nothing without host = "ray"' for key in in_ray if key in table]
    if table.keys() & upstream.keys():
        if "upstream" not in table:
            faults.append(f"{where}.upstream: write an address such as https://host/v1")
        if "upstream_key_variable" in table and "upstream_key_file" in table:
            faults.append(f"{where}.upstream_key_file: the key is read from a variable or a file, not both")
        if "adapter" not in table:
            others = (
                "interpreter",
                "network",
                "threads",
                "warm",
                "answer_tokens",
                "repeat_penalty",
                *_keys(OwnPrice),
                "host",
                *in_ray,
            )
            faults += _meaningless(where, table, others, "a model of an upstream; see input_price")
            faults += _of_no_price(where, table)
        else:
            faults += _meaningless(
                where,
                table,
                ("serves", "takes", "image_addresses"),
                "a model with an adapter, which decides this itself",
            )
            faults += _meaningless(where, table, _OF_TOKENS, "a model of an adapter, whose jobs have a price")
    if "adapter" not in table:
        needing = [key for key in adapter if key in table]
        faults += [
            f"{where}.{key}: means nothing without `adapter`, the name of an engine" for key in needing[:1]
        ]
    return faults


_OF_TOKENS = ("input_price", "output_price", "longest_answer", "limit_name", "when_left")


def _of_no_price(where: str, table: dict[str, Any]) -> list[str]:
    """The faults of price settings that mean nothing for this model of an upstream, or without a price."""
    if table.get("serves") == "embeddings":
        keys = _OF_TOKENS[1:-1] if "input_price" in table else _OF_TOKENS[1:]
        return _meaningless(where, table, (*keys, "image_addresses"), "a model that gives vectors")
    if not any(key in table for key in _OF_TOKENS[:2]):
        return _meaningless(where, table, _OF_TOKENS[2:], "a model without input_price or output_price")
    return []


def _meaningless(where: str, table: dict[str, Any], keys: tuple[str, ...], model: str) -> list[str]:
    return [f"{where}.{key}: means nothing for {model}" for key in keys if key in table]
