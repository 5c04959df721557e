"""What an operator may say of one model, in the file's table `[models."NAME"]`; checked, all at once."""

import re
from dataclasses import dataclass
from typing import Any

from tenuto.config.adapters import ADAPTER_FIELDS, AdapterSettings, adapter_from, read_adapter, texts
from tenuto.config.hosts import HOST_FIELDS, RaySettings, read_host

MICROS_PER_CNY = 1_000_000
UPSTREAM_CONNECTIONS = 64
MAX_UPSTREAM_CONNECTIONS = 10_000
UPSTREAM_FIELDS = ("upstream", "upstream_model", "upstream_key_variable", "upstream_key_file", "connections")
MODEL_FIELDS = (
    *("enabled", "interpreter", "warm", "unit", "price", "hold", "threads", "composed_of"),
    *UPSTREAM_FIELDS,
    *ADAPTER_FIELDS,
    *HOST_FIELDS,
)

_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]_-]+(/[A-Za-z0-9./_~-]*)?\Z")


@dataclass(frozen=True, slots=True)
class Price:
    """What a job of a model costs: per job or per minute of audio, and what is held until it ends."""

    unit: str = "job"
    price_micros: int = 0
    hold_micros: int = 0


@dataclass(frozen=True, slots=True)
class OwnPrice:
    """What an operator says of a model's price; None: as the model's kind has it."""

    unit: str | None = None
    price_micros: int | None = None
    hold_micros: int | None = None


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """An OpenAI-compatible server behind a model. The key itself stands in no setting."""

    url: str
    """The server's base address, up to `/v1`."""
    model: str | None = None
    """The model's name there; None: its name here."""
    key_variable: str | None = None
    """The variable that holds the server's key, read at start."""
    key_file: str | None = None
    """The file that holds it instead."""
    connections: int = UPSTREAM_CONNECTIONS
    """Chats, or jobs, that are sent there at once; further ones wait."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What an operator may change of one model, in the file's table `[models."NAME"]`."""

    enabled: bool = True
    interpreter: str | None = None
    """The Python that runs the engine; None: the one that runs Tenuto."""
    warm: bool = False
    """Load the weights when the worker starts, not on the first job."""
    price: OwnPrice | None = None
    """None: what the model's kind costs by contract."""
    threads: int = 0
    """Threads of the engine; 0: as many as the machine has cores, two at most."""
    upstream: UpstreamSettings | None = None
    """Another server's model; the table's name is the name under which it is offered. For chats by itself,
    for jobs together with the adapter that speaks to it."""
    adapter: AdapterSettings | None = None
    """The adapter that runs the model, where it is none of Tenuto's own."""
    composed_of: tuple[str, ...] = ()
    """The two recognition models that write the transcripts of this one."""
    ray: RaySettings | None = None
    """The pool in which its engine runs; None: a child process of the worker."""


def model_from(own: dict[str, Any]) -> ModelSettings:
    """What `asdict` made of a model's settings, as JSON brings it back."""
    return ModelSettings(
        **own
        | {
            "price": own["price"] and OwnPrice(**own["price"]),
            "upstream": own["upstream"] and UpstreamSettings(**own["upstream"]),
            "adapter": own["adapter"] and adapter_from(own["adapter"]),
            "composed_of": tuple(own["composed_of"]),
            "ray": own["ray"] and RaySettings(**own["ray"]),
        }
    )


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
        faults.extend(
            f"{where}.{key}: there is no such setting; there are {', '.join(MODEL_FIELDS)}"
            for key in table
            if key not in MODEL_FIELDS
        )
        models[name] = _model(where, table, faults)
    return models


def _model(where: str, table: dict[str, Any], faults: list[str]) -> ModelSettings:
    for key, kind in (("enabled", bool), ("warm", bool), ("interpreter", str), ("threads", int)):
        if key in table and not isinstance(table[key], kind):
            faults.append(f"{where}.{key}: {table[key]!r} is not a {kind.__name__}")
    threads = table.get("threads", 0)
    if isinstance(threads, bool) or (isinstance(threads, int) and threads < 0):
        faults.append(f"{where}.threads: {threads!r} is not a number of threads; 0 means as many as fit")
    if "composed_of" in table:
        faults.extend(
            f"{where}.{key}: means nothing for a model of others' engines; set it for each of those"
            for key in HOST_FIELDS
            if key in table
        )
    return ModelSettings(
        enabled=table.get("enabled", True),
        interpreter=table.get("interpreter"),
        warm=table.get("warm", False),
        price=_own_price(where, table, faults) if table.keys() & {"unit", "price", "hold"} else None,
        threads=table.get("threads", 0),
        upstream=_upstream(where, table, faults) if table.keys() & set(UPSTREAM_FIELDS) else None,
        adapter=read_adapter(where, table, faults),
        composed_of=texts(where, table, "composed_of", faults) or (),
        ray=read_host(where, table, faults),
    )


def _upstream(where: str, table: dict[str, Any], faults: list[str]) -> UpstreamSettings:
    for key in UPSTREAM_FIELDS[:-1]:
        if key in table and (not isinstance(table[key], str) or not table[key]):
            faults.append(f"{where}.{key}: {table[key]!r} is not a text")
    url = table.get("upstream")
    if not isinstance(url, str) or not _URL.match(url):
        faults.append(
            f"{where}.upstream: write an address such as https://host/v1, without a user or a query"
        )
    if "upstream_key_variable" in table and "upstream_key_file" in table:
        faults.append(f"{where}.upstream_key_file: the key is read from a variable or a file, not both")
    connections = table.get("connections", UPSTREAM_CONNECTIONS)
    if type(connections) is not int or not 1 <= connections <= MAX_UPSTREAM_CONNECTIONS:
        limit = MAX_UPSTREAM_CONNECTIONS
        faults.append(f"{where}.connections: {connections!r} is not an integer from 1 to {limit}")
    for key in ("interpreter", "threads", "warm", "unit", "price", "hold", *HOST_FIELDS):
        if key in table and "adapter" not in table:
            faults.append(f"{where}.{key}: means nothing for a model of an upstream, whose chats are free")
    return UpstreamSettings(
        url=url if isinstance(url, str) else "",
        model=table.get("upstream_model"),
        key_variable=table.get("upstream_key_variable"),
        key_file=table.get("upstream_key_file"),
        connections=connections,
    )


def _own_price(where: str, table: dict[str, Any], faults: list[str]) -> OwnPrice:
    unit = table.get("unit")
    if unit not in (None, "job", "audio_minute"):
        faults.append(f"{where}.unit: {unit!r} is none of job, audio_minute")
    price = micros(f"{where}.price", table["price"], faults) if "price" in table else None
    hold = micros(f"{where}.hold", table["hold"], faults) if "hold" in table else None
    if unit != "audio_minute" and price is not None and hold is not None and hold < price:
        faults.append(f"{where}.hold: is below the price of a job, so that it could never be charged")
    return OwnPrice(unit, price, hold)


def micros(where: str, value: Any, faults: list[str]) -> int:
    """An amount in CNY, written as a string so that no float touches money."""
    whole, _, places = value.partition(".") if isinstance(value, str) else ("", "", "")
    if not (whole.isascii() and whole.isdigit() and len(whole) <= 9 and len(places) <= 6) or not (
        places == "" or (places.isascii() and places.isdigit())
    ):
        faults.append(f'{where}: {value!r} is not an amount; write a text such as "0.05", in CNY')
        return 0
    return int(whole) * MICROS_PER_CNY + int(places.ljust(6, "0") or 0)
