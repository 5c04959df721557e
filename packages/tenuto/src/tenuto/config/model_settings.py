"""What an operator may set for one model, in the file's table `[models."NAME"]`, each declared once.

Only types and ranges are checked here; `catalog` checks whether the settings fit an engine's manifest.
`docs/operations/running.md` shows these declarations (`scripts/settings_table.py` writes its table).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct, field

from tenuto.config import setting
from tenuto.config.setting import Amount, fault, no_setting
from tenuto.errors import Fault
from tenuto.rules import Boolean, Choice, Field, Form, Integer, Number, Texts, declared, wrong_type

CHAT_FEATURES = ("tools", "images", "json", "logprobs", "logit_bias", "n", "names", "reasoning_effort")
"""What a chat may ask of a model besides text."""
IMAGE_ADDRESSES = "image_addresses"
"""Pictures that are elsewhere, which is no such feature by itself: the operator has to allow it."""
_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9./_~-]*)?\Z")
# Ray's client protocol (ray://) is not allowed: actors would not end with the connection.
_RAY_ADDRESS = re.compile(r"(auto|[A-Za-z0-9.\[\]:_-]+:[0-9]{1,5})\Z")


class _Table(Struct, frozen=True):
    """A table; its content is checked where it is used."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if not isinstance(value, dict):
            faults.append(fault(param, "is not a table"))
        return value


class _Url(Struct, frozen=True):
    """The address of a server. It may hold a secret, so it is not shown."""

    expected = "a text"

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if not isinstance(value, str) or not value:
            faults.append(wrong_type(param, value, self.expected))
        elif not _URL.match(value):
            message = "this is not an address such as https://host/v1, without a user or a query"
            faults.append(fault(param, message))
        return value


_TEXT = Form("a text")
_TEXTS = Texts(None, _TEXT, "a list of texts")


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
        _Url(),
        "the address, up to `/v1`, of a server with OpenAI's interfaces; for jobs together with `adapter`",
        "upstream",
    ] = ""
    model: Annotated[
        str | None, _TEXT, "the model's name there; left out: its name here", "upstream_model"
    ] = None
    key_variable: Annotated[
        str | None,
        _TEXT,
        "the variable that holds the server's key, read at start",
        "upstream_key_variable",
    ] = None
    key_file: Annotated[
        str | None,
        _TEXT,
        "the file that holds it instead; with neither, no key is sent",
        "upstream_key_file",
    ] = None
    connections: Annotated[
        int, Integer(1, 10_000), "{range} chats, or jobs, that are sent there at once; further ones wait"
    ] = 64
    serves: Annotated[
        Literal["chat", "embeddings"],
        Choice(("chat", "embeddings")),
        "without `adapter`: what the model is for, `chat` or `embeddings`",
    ] = "chat"
    takes: Annotated[
        tuple[str, ...],
        Texts(None, Choice(CHAT_FEATURES), f"a list of some of {', '.join(CHAT_FEATURES)}"),
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
        Integer(1, 10_000_000),
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
        str,
        _TEXT,
        "the engine that runs the model, by its name: see [engines](engines.md)",
        "adapter",
    ] = ""
    accept_licence: Annotated[
        str | None,
        _TEXT,
        "the name of the licence, which you have read, if the adapter requires that",
    ] = None
    revision: Annotated[str | None, _TEXT, "which weights they are, as results name them"] = None
    role: Annotated[
        str | None,
        _TEXT,
        "which transcript a recognition engine writes: `segment_text` or `word_timestamps`",
    ] = None
    honoured: Annotated[tuple[str, ...] | None, _TEXTS, "fewer parameters than the adapter honours"] = None
    languages: Annotated[tuple[str, ...] | None, _TEXTS, "the languages that it knows"] = None
    defaults: Annotated[Mapping[str, int | float], _Table(), "values of parameters that a job leaves out"] = (
        field(default_factory=dict)
    )
    options: Annotated[Mapping[str, Any], _Table(), "the adapter's own options"] = field(default_factory=dict)
    metered: Annotated[
        bool | None,
        Boolean(),
        "each call is charged for: it is made once, and a doubtful outcome waits for the operator",
    ] = None
    memory_mib: Annotated[int | None, Integer(1, 1 << 30), "{range} MiB that its process takes"] = None
    load_timeout_s: Annotated[
        int | None, Integer(1, 86_400), "{range}; from the start of its process until its weights are loaded"
    ] = None


class RaySettings(Struct, frozen=True):
    """An engine's actor in a Ray pool."""

    address: Annotated[
        str,
        Form("auto, or an address such as 10.0.0.1:6379", lambda text: bool(_RAY_ADDRESS.match(text))),
        "the pool's head, as `host:port`; `auto`: that of the node on this machine",
        "ray_address",
    ] = "auto"
    cpus: Annotated[float, Number(0, 1024), "{range} CPUs that the pool reserves", "ray_cpus"] = 1.0
    gpus: Annotated[float, Number(0, 1024), "{range} GPUs that the pool reserves", "ray_gpus"] = 0.0
    wait_s: Annotated[
        int, Integer(1, 86_400), "{range}; how long a load waits until the pool has them free", "ray_wait_s"
    ] = 60


class ModelSettings(Struct, frozen=True):
    """What an operator may set for one model."""

    enabled: Annotated[bool, Boolean(), "`false`: the model is not offered"] = True
    interpreter: Annotated[
        str | None, _TEXT, "the Python that runs the engine; left out: the one that runs Tenuto"
    ] = None
    network: Annotated[
        bool,
        Boolean(),
        "`true`: the engine's process may open sockets although it calls no server; see [hosts](hosts.md)",
    ] = False
    warm: Annotated[bool, Boolean(), "load the weights when the worker starts, not on the first job"] = False
    threads: Annotated[
        int, Integer(0, 1024), "{range} threads of the engine; 0: as many as there are cores, two at most"
    ] = 0
    answer_tokens: Annotated[
        int,
        Integer(1, 10_000_000),
        "an embedded chat model: {range} tokens of an answer for which no limit is asked",
    ] = 512
    repeat_penalty: Annotated[
        float,
        Number(1, 2),
        "an embedded chat model: {range}; how much less likely a token becomes once it was used, in an "
        "answer for which no other penalty is asked; 1: not at all",
    ] = 1.1
    composed_of: Annotated[
        tuple[str, ...], _TEXTS, "the two recognition models that write the transcripts of this one"
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


def _keys(group: type) -> dict[str, Field]:
    return {field.named or field.name: field for field in declared(group)}


DECLARED: Mapping[str, Field] = {key: one for group in _GROUPS for key, one in _keys(group).items()}
"""By the key in a model's table."""


def read_models(value: Any, faults: list[Fault]) -> dict[str, ModelSettings]:
    """The tables of the file; adds what is wrong to the faults."""
    models: dict[str, ModelSettings] = {}
    if not isinstance(value, dict):
        faults.append(fault("models", 'write one table per model, [models."NAME"]'))
        return models
    for name, table in value.items():
        where = f'models."{name}"'
        if not isinstance(table, dict):
            faults.append(fault(where, "is not a table"))
            continue
        unknown = [key for key in table if key not in DECLARED]
        faults.extend(no_setting(f"{where}.{key}", key, DECLARED) for key in unknown)
        faults.extend(_contradictions(where, table))
        models[name] = _model(where, table, faults)
    return models


def _model(where: str, table: dict[str, Any], faults: list[Fault]) -> ModelSettings:
    def read(group: type) -> dict[str, Any] | None:
        """The values of a group's settings; None if the table has none of them."""
        values = {
            field.name: setting.read(field.rule, f"{where}.{key}", table[key], faults, may_be_text=False)
            for key, field in _keys(group).items()
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
            message = "is below the price of a job, so that it could never be charged"
            faults.append(fault(f"{where}.hold", message))
    return own


def _contradictions(where: str, table: dict[str, Any]) -> list[Fault]:
    """The faults of settings in a table that need or exclude others."""
    in_ray, upstream, adapter = _keys(RaySettings), _keys(UpstreamSettings), _keys(AdapterSettings)
    faults = []
    if "composed_of" in table:
        faults += _meaningless(
            where, table, ("host", *in_ray), "for a model of others' engines; set it for those"
        )
    if table.get("host") != "ray":
        faults += _meaningless(where, table, in_ray, 'without host = "ray"')
    if table.keys() & upstream.keys():
        if "upstream" not in table:
            faults.append(fault(f"{where}.upstream", "write an address such as https://host/v1"))
        if "upstream_key_variable" in table and "upstream_key_file" in table:
            message = "the key is read from a variable or a file, not both"
            faults.append(fault(f"{where}.upstream_key_file", message))
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
            faults += _meaningless(where, table, others, "for a model of an upstream; see input_price")
            faults += _of_no_price(where, table)
        else:
            faults += _meaningless(
                where,
                table,
                ("serves", "takes", "image_addresses"),
                "for a model with an adapter, which decides this itself",
            )
            faults += _meaningless(
                where, table, _OF_TOKENS, "for a model of an adapter, whose jobs have a price"
            )
    if "adapter" not in table:
        needing = _meaningless(where, table, adapter, "without `adapter`, the name of an engine")
        faults += needing[:1]
    return faults


_OF_TOKENS = ("input_price", "output_price", "longest_answer", "limit_name", "when_left")


def _of_no_price(where: str, table: dict[str, Any]) -> list[Fault]:
    """The faults of price settings that mean nothing for this model of an upstream, or without a price."""
    if table.get("serves") == "embeddings":
        keys = _OF_TOKENS[1:-1] if "input_price" in table else _OF_TOKENS[1:]
        return _meaningless(where, table, (*keys, "image_addresses"), "for a model that gives vectors")
    if not any(key in table for key in _OF_TOKENS[:2]):
        return _meaningless(where, table, _OF_TOKENS[2:], "for a model without input_price or output_price")
    return []


def _meaningless(where: str, table: dict[str, Any], keys: Iterable[str], what: str) -> list[Fault]:
    return [fault(f"{where}.{key}", f"means nothing {what}") for key in keys if key in table]
