"""What an operator may set for one model, in the file's table `[models."NAME"]`, each declared once.

Only shapes are checked here; whether the settings fit an engine is known where its manifest is (`catalog`).
`docs/operations/running.md` shows these declarations (`scripts/settings_table.py` writes its table).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
    declaration,
    declared,
    no_setting,
    setting,
)

CHAT_FEATURES = ("tools", "images", "json", "logprobs", "logit_bias", "n", "names", "reasoning_effort")
"""What a chat may ask of a model beside a text."""
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9./_~-]*)?\Z")
# Ray's own client protocol (ray://) is another thing: it has no actors' lives tied to its end.
_RAY_ADDRESS = re.compile(r"(auto|[A-Za-z0-9.\[\]:_-]+:[0-9]{1,5})\Z")


def _integer(low: int, high: int) -> Integer:
    return Integer(low, high, may_be_text=False)


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs: a job, a minute of audio, or a million tokens; of a job also what is held."""

    unit: str = "job"
    price_micros: int = 0
    """Of a million tokens: of the input."""
    hold_micros: int = 0
    """Until the job ends. What a call holds depends on its request (`billing.rules`)."""
    output_price_micros: int = 0
    """Of a million tokens of the output."""


@dataclass(frozen=True, slots=True)
class OwnPrice:
    """A model's price as the operator sets it; None: as the model's kind has it."""

    unit: str | None = setting(
        None,
        Choice(("job", "audio_minute")),
        "`job`, or `audio_minute` (speech, recognition); left out: as the kind has it",
    )
    price_micros: int | None = setting(
        None, Amount(in_micros=True), "CNY, as text, so that no float touches money", "price"
    )
    hold_micros: int | None = setting(
        None,
        Amount(in_micros=True),
        "CNY, as text; held while the job is open, and a charge is never above it",
        "hold",
    )


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """An OpenAI-compatible server behind a model. The key itself stands in no setting."""

    url: str = setting(
        "",
        Form(
            lambda text: bool(_URL.match(text)),
            "an address such as https://host/v1, without a user or a query",
            may_be_secret=True,
        ),
        "the address, up to `/v1`, of a server with OpenAI's interfaces; for jobs together with `adapter`",
        "upstream",
    )
    model: str | None = setting(
        None, Text(), "the model's name there; left out: its name here", "upstream_model"
    )
    key_variable: str | None = setting(
        None, Text(), "the variable that holds the server's key, read at start", "upstream_key_variable"
    )
    key_file: str | None = setting(
        None, Text(), "the file that holds it instead; with neither, no key is sent", "upstream_key_file"
    )
    connections: int = setting(
        64, _integer(1, 10_000), "{range} chats, or jobs, that are sent there at once; further ones wait"
    )
    serves: Literal["chat", "embeddings"] = setting(
        "chat",
        Choice(("chat", "embeddings")),
        "without `adapter`: what the model is for, `chat` or `embeddings`",
    )
    takes: tuple[str, ...] = setting(
        CHAT_FEATURES,
        Some(CHAT_FEATURES),
        "of a chat model: what it accepts besides text, a list of any of "
        + ", ".join(f"`{name}`" for name in CHAT_FEATURES)
        + "; left out: all of them, as far as the server does",
    )
    input_price_micros: int = setting(
        0,
        Amount(in_micros=True),
        "without `adapter`: CNY for a million input tokens, as text; left out: free of charge",
        "input_price",
    )
    output_price_micros: int = setting(
        0,
        Amount(in_micros=True),
        "of a chat model: CNY for a million output tokens, as text; left out: free of charge",
        "output_price",
    )
    longest_answer: int = setting(
        4096,
        _integer(1, 10_000_000),
        "of a chat model with a price: {range} tokens that are held for an answer for which no limit is "
        "asked, and sent to the server as its limit",
    )
    limit_name: Literal["max_tokens", "max_completion_tokens"] = setting(
        "max_tokens",
        Choice(("max_tokens", "max_completion_tokens")),
        "of a chat model with a price: what its server calls that limit, `max_tokens` or "
        "`max_completion_tokens`",
    )

    @property
    def has_price(self) -> bool:
        """Whether its calls are charged."""
        return self.input_price_micros > 0 or self.output_price_micros > 0


@dataclass(frozen=True, slots=True)
class AdapterSettings:
    """Which adapter runs a model, and with which settings; None: as the adapter's manifest has it."""

    name: str = setting(
        "", Text(), "the engine that runs the model, by its name: see [engines](engines.md)", "adapter"
    )
    accept_licence: str | None = setting(
        None, Text(), "the name of the licence, which you have read, if the adapter requires that"
    )
    revision: str | None = setting(None, Text(), "which weights they are, as results name them")
    role: str | None = setting(
        None, Text(), "which transcript a recognition engine writes: `segment_text` or `word_timestamps`"
    )
    honoured: tuple[str, ...] | None = setting(None, Texts(), "fewer parameters than the adapter honours")
    languages: tuple[str, ...] | None = setting(None, Texts(), "the languages that it knows")
    defaults: Mapping[str, int | float] = field(
        default_factory=dict,
        metadata=declaration(Table(), "values of parameters that a job leaves out"),
    )
    options: Mapping[str, Any] = field(
        default_factory=dict, metadata=declaration(Table(), "the adapter's own options")
    )
    metered: bool | None = setting(
        None,
        Boolean(),
        "each call is charged for: it is made once, and a doubtful outcome waits for the operator",
    )
    memory_mib: int | None = setting(None, _integer(1, 1 << 30), "{range} MiB that its process takes")
    load_timeout_s: int | None = setting(
        None, _integer(1, 86_400), "{range}; from the start of its process until its weights are loaded"
    )


@dataclass(frozen=True, slots=True)
class RaySettings:
    """An engine's actor in a Ray pool."""

    address: str = setting(
        "auto",
        Form(lambda text: bool(_RAY_ADDRESS.match(text)), "auto, or an address such as 10.0.0.1:6379"),
        "the pool's head, as `host:port`; `auto`: that of the node on this machine",
        "ray_address",
    )
    cpus: float = setting(
        1.0, Number(0, 1024, may_be_text=False), "{range} CPUs that the pool reserves", "ray_cpus"
    )
    gpus: float = setting(
        0.0, Number(0, 1024, may_be_text=False), "{range} GPUs that the pool reserves", "ray_gpus"
    )
    wait_s: int = setting(
        60, _integer(1, 86_400), "{range}; how long a load waits until the pool has them free", "ray_wait_s"
    )


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What an operator may change of one model."""

    enabled: bool = setting(True, Boolean(), "`false`: the model is not offered")
    interpreter: str | None = setting(
        None, Text(), "the Python that runs the engine; left out: the one that runs Tenuto"
    )
    warm: bool = setting(False, Boolean(), "load the weights when the worker starts, not on the first job")
    threads: int = setting(
        0, _integer(0, 1024), "{range} threads of the engine; 0: as many as there are cores, two at most"
    )
    answer_tokens: int = setting(
        512,
        _integer(1, 10_000_000),
        "an embedded chat model: {range} tokens of an answer for which no limit is asked",
    )
    repeat_penalty: float = setting(
        1.1,
        Number(1, 2, may_be_text=False),
        "an embedded chat model: {range}; how much less likely a token becomes once it was used, in an "
        "answer for which no other penalty is asked; 1: not at all",
    )
    composed_of: tuple[str, ...] = setting(
        (), Texts(), "the two recognition models that write the transcripts of this one"
    )
    host: Literal["child", "ray"] = setting(
        "child",
        Choice(("child", "ray")),
        "where the engine runs: `child`, a process of the worker, or `ray`, a pool: see [hosts](hosts.md)",
    )
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
    """The tables of the file; what is wrong is added to the faults."""
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
    """Settings of a table that need, or exclude, others."""
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
                where, table, ("serves", "takes"), "a model with an adapter, which decides this itself"
            )
            faults += _meaningless(where, table, _OF_TOKENS, "a model of an adapter, whose jobs have a price")
    if "adapter" not in table:
        needing = [key for key in adapter if key in table]
        faults += [
            f"{where}.{key}: means nothing without `adapter`, the name of an engine" for key in needing[:1]
        ]
    return faults


_OF_TOKENS = ("input_price", "output_price", "longest_answer", "limit_name")


def _of_no_price(where: str, table: dict[str, Any]) -> list[str]:
    """Settings of a model of an upstream that mean nothing for what it gives, or without a price."""
    if table.get("serves") == "embeddings":
        return _meaningless(where, table, _OF_TOKENS[1:], "a model that gives vectors")
    if not any(key in table for key in _OF_TOKENS[:2]):
        return _meaningless(where, table, _OF_TOKENS[2:], "a model without input_price or output_price")
    return []


def _meaningless(where: str, table: dict[str, Any], keys: tuple[str, ...], model: str) -> list[str]:
    return [f"{where}.{key}: means nothing for {model}" for key in keys if key in table]
