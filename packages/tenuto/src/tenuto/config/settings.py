"""What an operator may set: each setting is declared once, with its rule, its default and its meaning.

The core's are here; those of a feature are in the struct that it names.

`docs/operations/running.md` shows these declarations (`scripts/settings_table.py` writes its table).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from msgspec import Struct, convert, field

from tenuto.config.addresses import (
    NONE,
    are_networks,
    are_origins,
    is_origin,
    is_prefix,
)
from tenuto.config.model_settings import ModelSettings, read_models
from tenuto.config.setting import Amount, fault
from tenuto.config.storage import DIRECTORY
from tenuto.errors import Fault
from tenuto.rules import Choice, Field, Form, Integer, Number, by_name, declared, wrong_type

EngineSet = Literal["real", "fake"]
Pull = Literal["missing", "never"]
LogFormat = Literal["auto", "text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
Migrations = Literal["apply", "wait"]
Prices = Literal["contract", "free"]
T = TypeVar("T", bound=Struct)


class Models(Struct, frozen=True):
    """A table for each model (`config.model_settings`)."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        return read_models(value, faults)


class Location(Struct, frozen=True):
    """A file or a folder."""

    expected = "a path"

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if not value or not isinstance(value, str | Path):
            faults.append(wrong_type(param, value, self.expected))
            return value
        try:
            return Path(value).expanduser()
        except RuntimeError:
            message = f"there is no home folder for {value}; name another folder, or set HOME"
            faults.append(fault(param, message))


class Settings(Struct, frozen=True):
    """What an operator may set. A limit of 0 means no limit."""

    folder: Annotated[Path, Location(), "the data folder; also `--data`", "TENUTO_DATA"]
    database: Annotated[
        str, Form("a text"), "where the records are: a file in the data folder, or `postgresql://…`"
    ] = "sqlite:///tenuto.db"
    migrations: Annotated[
        Migrations,
        Choice(get_args(Migrations)),
        "`apply`: whoever starts first brings the database up to date; `wait`: processes wait until "
        "[`tenuto admin migrate`](upgrade.md#who-migrates) has, and need no right to change tables",
    ] = "apply"
    blobs: Annotated[
        str,
        Form("a text"),
        "where the bytes are: `directory` is in the data folder; `s3://BUCKET/PREFIX` is an S3-compatible"
        " store: see [storage](storage.md)",
    ] = DIRECTORY
    cache: Annotated[Path, Location(), "where weights are; XDG_CACHE_HOME is honoured"] = Path(
        os.path.expanduser("~/.cache/tenuto")  # noqa: PTH111 - without a home folder, `~` stays
    )
    pull: Annotated[
        Pull,
        Choice(get_args(Pull)),
        "`missing`: `tenuto serve` downloads the weights that its models lack before it starts; `never`: it"
        " starts without them. No other process downloads by itself; also `--pull`",
    ] = "missing"
    engines: Annotated[
        EngineSet, Choice(get_args(EngineSet)), "`real`, or `fake` for tests and trials; also `--engines`"
    ] = "real"
    host: Annotated[
        str,
        Form("a text"),
        "the address to listen on; also `--host`. Tenuto speaks plain HTTP: put TLS before it",
    ] = "127.0.0.1"
    port: Annotated[int, Integer(0, 65_535), "{range}; 0 chooses a free one; also `--port`"] = 8080
    api_processes: Annotated[
        int,
        Integer(0, 64),
        "{range} processes of `tenuto serve` that answer callers, on one address: see [below]"
        "(#several-api-processes); 0: one on SQLite, on PostgreSQL one for every four cores, one to four",
    ] = 0
    metrics_host: Annotated[str, Form("a text"), "the address of `/metrics`"] = "127.0.0.1"
    metrics_port: Annotated[
        int,
        Integer(0, 65_535),
        "{range}; where the API answers `/metrics`, `/livez` and `/readyz`, at `metrics_host`; 0: nowhere",
    ] = 0
    requests_per_second: Annotated[
        int, Integer(0, 1_000_000), "{range}, per key; twice as many in a burst; 0: no limit"
    ] = 100
    queued_jobs: Annotated[int, Integer(0, 10_000_000), "{range}, per account and lane; 0: no limit"] = 20_000
    uploads: Annotated[int, Integer(0, 10_000), "{range} uploads at once per account; 0: no limit"] = 8
    stored_mib: Annotated[
        int, Integer(0, 1 << 40), "{range} MiB of uploaded inputs per account; 0: no limit"
    ] = 20 * 1024
    stored_files: Annotated[
        int, Integer(0, 1_000_000_000), "{range} uploads that an account has stored; 0: no limit"
    ] = 10_000
    retention_days: Annotated[
        int,
        Integer(0, 36_500),
        "{range}; requests and results of jobs that ended earlier, and unused inputs, are erased; "
        "records, ledger, segments and voices stay; 0: nothing is erased",
    ] = 0
    job_body_kib: Annotated[
        int, Integer(1, 65_536), "{range} KiB, the largest body of a job; beyond: 413"
    ] = 1024
    connections: Annotated[
        int,
        Integer(1, 100_000),
        "{range} open connections of a process; beyond, idle ones are closed, or the new one is answered 503",
    ] = 800
    connections_per_address: Annotated[
        int,
        Integer(0, 100_000),
        "{range} of them from one address that is not one of `trusted_proxies`; beyond: 503",
    ] = 400
    requests_at_once: Annotated[
        int, Integer(0, 100_000), "{range} requests of an account under way in a process; beyond: 429"
    ] = 200
    slow_head_s: Annotated[
        int, Integer(1, 600), "{range}; a request whose head takes longer is refused with 408"
    ] = 10
    slow_body_s: Annotated[
        int,
        Integer(1, 600),
        "{range}; the time that a body may take, and a second more for every 64 KiB received; beyond: 408",
    ] = 10
    slow_reader_s: Annotated[
        int,
        Integer(1, 600),
        "{range}; a client that takes less than 64 KiB of its answer in this time is disconnected",
    ] = 30
    drain_s: Annotated[
        int, Integer(0, 3_600), "{range}; how long SIGTERM waits for running jobs before they are given back"
    ] = 20
    heartbeat_s: Annotated[
        float, Number(0.05, 60), "{range}; how often a running attempt reports that it is alive"
    ] = 5.0
    silence_s: Annotated[
        float,
        Number(0.2, 3_600),
        "{range}; how long another machine's attempt must be silent to be rescued; three heartbeats or more",
    ] = 30.0
    host_grace_s: Annotated[
        float,
        Number(0.1, 60),
        "{range}; how long a cancelled run has to stop. Then its process is killed, unless it has other "
        "runs; an engine that took more than 10 s to load has as long again as its load took, a minute at"
        " most",
    ] = 5.0
    engine_silence_s: Annotated[
        int,
        Integer(0, 86_400),
        "{range}; a run that reports nothing for this long is stopped like a cancelled one, and its job "
        "is tried again; loading and waiting for a place do not count",
    ] = 300
    engine_memory_mib: Annotated[
        int,
        Integer(0, 1 << 30),
        "{range} MiB that the engines of a worker may take together: see [hosts](hosts.md#how-much-"
        "memory-engines-may-take); 0: no limit",
    ] = 0
    prices: Annotated[
        Prices,
        Choice(get_args(Prices)),
        "`contract`: jobs cost what their model's table says, else what the contract says; `free`: nothing "
        "costs anything, no credit is needed, and no page or command shows money",
    ] = "contract"
    initial_credit: Annotated[
        str,
        Amount(),
        "CNY, as text, that a new account starts with, unless another amount is given when it is created; "
        "nothing where `prices` is `free`",
    ] = "20"
    public_url: Annotated[
        str,
        Form("an address such as https://tenuto.example.com", is_origin),
        "where people reach the studio, such as `https://tenuto.example.com`, for the links that are printed",
    ] = "none"
    base_path: Annotated[
        str,
        Form("a path such as /tenuto, without a slash at its end", is_prefix),
        "the path on that host under which everything is served, such as `/tenuto`: see "
        "[proxies](proxies.md#below-a-path)",
    ] = "none"
    trusted_proxies: Annotated[
        str,
        Form("a list of addresses such as 127.0.0.1, 10.0.0.0/8", are_networks),
        "addresses or networks, comma-separated, whose `X-Forwarded-For` and `X-Forwarded-Proto` are "
        "believed",
    ] = "none"
    openai_inputs_h: Annotated[
        int,
        Integer(0, 36_500 * 24),
        "{range}; recordings that such programs send for transcription are erased when their job ended this"
        " long ago, results stay; 0: they are kept as uploads are",
    ] = 24
    cors_origins: Annotated[
        str,
        Form("a list of origins such as https://app.example.com, or *", are_origins),
        "origins, comma-separated, whose pages may call `/v1/…` from a browser with a key; `*`: all",
    ] = "none"
    log_level: Annotated[
        LogLevel, Choice(get_args(LogLevel)), "`debug`, `info`, `warning`, `error`", "TENUTO_LOG"
    ] = "info"
    log_format: Annotated[
        LogFormat,
        Choice(get_args(LogFormat)),
        "`json`: a JSON object a line; `text`: a line for people, coloured on a terminal unless NO_COLOR is "
        "set; `auto`: text on a terminal, and there warnings and errors alone; JSON elsewhere; also "
        "`--log-format`",
    ] = "auto"
    models: Annotated[Mapping[str, ModelSettings], Models(), "a table for each model: see below"] = field(
        default_factory=dict
    )

    features: Mapping[str, Any] = field(default_factory=dict)
    """What is set of the settings that features declare, by name."""

    def of(self, part: type[T]) -> T:
        """A feature's settings, by the struct that declares them."""
        return convert(self.features, part)

    def initial_credit_micros(self) -> int:
        """What a new account starts with."""
        amount: int = Amount(in_micros=True).read("initial_credit", self.initial_credit, [])
        return 0 if self.prices == "free" else amount

    def base(self) -> str:
        """The prefix of all our paths; empty at the root."""
        return "" if self.base_path == NONE else self.base_path


DECLARED: Mapping[str, Field] = by_name(declared(Settings))
"""The core's, by the name of the setting."""
