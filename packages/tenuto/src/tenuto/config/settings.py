"""What an operator may set: each setting is declared once, with its rule, its default and its meaning.

`docs/operations/running.md` shows these declarations (`scripts/settings_table.py` writes its table).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from tenuto.addresses import NONE, are_networks, are_origins, is_endpoint, is_origin, is_prefix, is_program
from tenuto.config.models import ModelSettings, read_models
from tenuto.config.rules import (
    Amount,
    Choice,
    Declaration,
    Form,
    Integer,
    Location,
    Number,
    Text,
    declaration,
    declared,
    micros,
    setting,
)
from tenuto.config.storage import DIRECTORY, is_region

Addressing = Literal["path", "virtual"]
EngineSet = Literal["real", "fake"]
Pull = Literal["missing", "never"]
LogFormat = Literal["auto", "text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
Migrations = Literal["apply", "wait"]
Switch = Literal["on", "off"]
Webhooks = Literal["off", "public", "any"]
Registration = Literal["open", "invite", "closed"]
Prices = Literal["contract", "free"]


@dataclass(frozen=True, slots=True)
class Models:
    """A table for each model (`config.models`)."""

    def read(self, name: str, value: Any, faults: list[str]) -> Any:
        return read_models(value, faults)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an operator may set. 0 means none wherever a limit is meant."""

    folder: Path = field(metadata=declaration(Location(), "the data folder; also `--data`", "TENUTO_DATA"))
    database: str = setting(
        "sqlite:///tenuto.db", Text(), "where the records are: a file in the data folder, or `postgresql://…`"
    )
    migrations: Migrations = setting(
        "apply",
        Choice(get_args(Migrations)),
        "`apply`: whoever starts first brings the database up to date; `wait`: processes wait until "
        "[`tenuto admin migrate`](upgrade.md#who-migrates) has, and need no right to change tables",
    )
    blobs: str = setting(
        DIRECTORY,
        Text(),
        "where the bytes are: `directory` is in the data folder; `s3://BUCKET/PREFIX` is an S3-compatible"
        " store: see [storage](storage.md)",
    )
    s3_endpoint: str = setting(
        "none",
        Form(is_origin, "an address such as https://s3.example.com"),
        "the address of a store that is not Amazon's, such as `https://s3.example.com`",
    )
    s3_region: str = setting(
        "none",
        Form(is_region, "the name of a region such as eu-central-1"),
        "its region; `none`: what `AWS_REGION` or `AWS_DEFAULT_REGION` say, or `us-east-1`",
    )
    s3_addressing: Addressing = setting(
        "path",
        Choice(get_args(Addressing)),
        "`path`: the bucket is part of the path; `virtual`: it is the first label of the host name, "
        "which `s3_endpoint` must then include",
    )
    s3_ca_file: str = setting(
        "none", Text(), "a file of certificates (PEM) that are trusted for the store besides the system's"
    )
    s3_timeout_s: float = setting(
        20.0, Number(0.5, 600), "{range}; the time limit of one request to the store: enough to upload 8 MiB"
    )
    cache: Path = setting(
        Path(os.path.expanduser("~/.cache/tenuto")),  # noqa: PTH111 - where there is no home, `~` stays
        Location(),
        "where weights are; XDG_CACHE_HOME is honoured",
    )
    pull: Pull = setting(
        "missing",
        Choice(get_args(Pull)),
        "`missing`: `tenuto serve` downloads the weights that its models lack before it starts; `never`: it"
        " starts without them. No other process downloads by itself; also `--pull`",
    )
    engines: EngineSet = setting(
        "real", Choice(get_args(EngineSet)), "`real`, or `fake` for tests and trials; also `--engines`"
    )
    host: str = setting(
        "127.0.0.1",
        Text(),
        "the address to listen on; also `--host`. Tenuto speaks plain HTTP: put TLS before it",
    )
    port: int = setting(8080, Integer(0, 65_535), "{range}; 0 chooses a free one; also `--port`")
    api_processes: int = setting(
        0,
        Integer(0, 64),
        "{range} processes of `tenuto serve` that answer callers, on one address: see [below]"
        "(#several-api-processes); 0: one on SQLite, on PostgreSQL one for every four cores, one to four",
    )
    metrics_host: str = setting("127.0.0.1", Text(), "the address of `/metrics`")
    metrics_port: int = setting(
        0,
        Integer(0, 65_535),
        "{range}; where the API answers `/metrics`, `/livez` and `/readyz`, at `metrics_host`; 0: nowhere",
    )
    worker_metrics_port: int = setting(
        0,
        Integer(0, 65_535),
        "{range}; where a worker answers `/metrics`, `/livez` and `/readyz`, at `metrics_host`; 0: nowhere",
    )
    requests_per_second: int = setting(
        100, Integer(0, 1_000_000), "{range}, per key; twice as many in a burst; 0: no limit"
    )
    queued_jobs: int = setting(20_000, Integer(0, 10_000_000), "{range}, per account and lane; 0: no limit")
    uploads: int = setting(8, Integer(0, 10_000), "{range} uploads at once per account; 0: no limit")
    stored_mib: int = setting(
        20 * 1024, Integer(0, 1 << 40), "{range} MiB of uploaded inputs per account; 0: no limit"
    )
    stored_files: int = setting(
        10_000, Integer(0, 1_000_000_000), "{range} uploads that an account has stored; 0: no limit"
    )
    scratch_mib: int = setting(
        2048, Integer(1, 1 << 40), "{range} MiB of renditions per account in a process while they are read"
    )
    retention_days: int = setting(
        0,
        Integer(0, 36_500),
        "{range}; requests and results of jobs that ended earlier, and unused inputs, are erased; "
        "records, ledger, segments and voices stay; 0: nothing is erased",
    )
    job_body_kib: int = setting(
        1024, Integer(1, 65_536), "{range} KiB, the largest body of a job; beyond: 413"
    )
    chat_body_kib: int = setting(
        4096, Integer(1, 65_536), "{range} KiB, the largest body of a chat; beyond: 413"
    )
    connections: int = setting(
        800,
        Integer(1, 100_000),
        "{range} open connections of a process; beyond, idle ones are closed, or the new one is answered 503",
    )
    connections_per_address: int = setting(
        400,
        Integer(0, 100_000),
        "{range} of them from one address that is not one of `trusted_proxies`; beyond: 503",
    )
    requests_at_once: int = setting(
        200, Integer(0, 100_000), "{range} requests of an account under way in a process; beyond: 429"
    )
    slow_head_s: int = setting(
        10, Integer(1, 600), "{range}; a request whose head takes longer is refused with 408"
    )
    slow_body_s: int = setting(
        10,
        Integer(1, 600),
        "{range}; the time that a body may take, and a second more for every 64 KiB received; beyond: 408",
    )
    slow_reader_s: int = setting(
        30,
        Integer(1, 600),
        "{range}; a client that takes less than 64 KiB of its answer in this time is disconnected",
    )
    speech_slots: int = setting(1, Integer(1, 1_000), "{range} speech jobs at once, over all machines")
    recognition_slots: int = setting(
        8, Integer(1, 1_000), "{range} recognition jobs at once, over all machines"
    )
    image_slots: int = setting(1, Integer(1, 1_000), "{range} image jobs at once, over all machines")
    drain_s: int = setting(
        20, Integer(0, 3_600), "{range}; how long SIGTERM waits for running jobs before they are given back"
    )
    heartbeat_s: float = setting(
        5.0, Number(0.05, 60), "{range}; how often a running attempt reports that it is alive"
    )
    silence_s: float = setting(
        30.0,
        Number(0.2, 3_600),
        "{range}; how long another machine's attempt must be silent to be rescued; three heartbeats or more",
    )
    host_grace_s: float = setting(
        5.0,
        Number(0.1, 60),
        "{range}; how long a cancelled run has to stop. Then its process is killed, unless it has other "
        "runs; an engine that took more than 10 s to load has as long again as its load took, a minute at"
        " most",
    )
    engine_silence_s: int = setting(
        300,
        Integer(0, 86_400),
        "{range}; a run that reports nothing for this long is stopped like a cancelled one, and its job "
        "is tried again; loading and waiting for a place do not count",
    )
    engine_memory_mib: int = setting(
        0,
        Integer(0, 1 << 30),
        "{range} MiB that the engines of a worker may take together: see [hosts](hosts.md#how-much-"
        "memory-engines-may-take); 0: no limit",
    )
    queued_chats: int = setting(16, Integer(0, 100_000), "{range} chats that wait for one model; 0: no limit")
    chat_timeout_s: int = setting(
        600, Integer(1, 86_400), "{range}; a chat that is not answered by then, or not read, is given up"
    )
    registration: Registration = setting(
        "invite",
        Choice(get_args(Registration)),
        "who may make an account in the studio: `open` everybody, `invite` whoever has a link, `closed` "
        "nobody; see [accounts](accounts.md)",
    )
    prices: Prices = setting(
        "contract",
        Choice(get_args(Prices)),
        "`contract`: jobs cost what their model's table says, else what the contract says; `free`: nothing "
        "costs anything, no credit is needed, and no page or command shows money",
    )
    initial_credit: str = setting(
        "20",
        Amount(),
        "CNY, as text, that a new account starts with, unless another amount is given when it is created; "
        "nothing where `prices` is `free`",
    )
    session_idle_hours: int = setting(
        168, Integer(1, 8_760), "{range}; a session that is not used for this long expires"
    )
    session_days: int = setting(30, Integer(1, 365), "{range}; every session expires after this many days")
    public_url: str = setting(
        "none",
        Form(is_origin, "an address such as https://tenuto.example.com"),
        "where people reach the studio, such as `https://tenuto.example.com`, for the links that are printed",
    )
    base_path: str = setting(
        "none",
        Form(is_prefix, "a path such as /tenuto, without a slash at its end"),
        "the path on that host under which everything is served, such as `/tenuto`: see "
        "[proxies](proxies.md#below-a-path)",
    )
    trusted_proxies: str = setting(
        "none",
        Form(are_networks, "a list of addresses such as 127.0.0.1, 10.0.0.0/8"),
        "addresses or networks, comma-separated, whose `X-Forwarded-For` and `X-Forwarded-Proto` are "
        "believed",
    )
    webhooks: Webhooks = setting(
        "off",
        Choice(get_args(Webhooks)),
        "whether accounts may have events sent to servers of their own: `off`; `public`, over TLS to servers"
        " of the public internet; `any`, to every server that this one reaches, those of its own network"
        " included; see [webhooks](../webhooks.md)",
    )
    low_balance: str = setting(
        "1",
        Amount(),
        "CNY, as text; whoever has less is sent `balance.low`, if a webhook asks for that",
    )
    openai_routes: Switch = setting(
        "on",
        Choice(get_args(Switch)),
        "`on`: programs written for OpenAI's API may call the service (`/v1/audio/…`, `/v1/images/…`,"
        " `/v1/embeddings`); `off`:"
        " those paths are not there",
    )
    openai_wait_s: int = setting(
        290,
        Integer(1, 3_600),
        "{range}; how long such a request waits for its job before it is answered 503 and sent again",
    )
    openai_inputs_h: int = setting(
        24,
        Integer(0, 36_500 * 24),
        "{range}; recordings that such programs send for transcription are erased when their job ended this"
        " long ago, results stay; 0: they are kept as uploads are",
    )
    ffmpeg: str = setting(
        NONE,
        Form(is_program, "the absolute path of a program, or none"),
        "the path of an ffmpeg, such as /usr/bin/ffmpeg: such programs may then send M4A, MP4, WebM, WMA, AMR"
        " and AAC, too, and ask for `aac`; it runs without any rights; `none`: they are refused",
    )
    cors_origins: str = setting(
        "none",
        Form(are_origins, "a list of origins such as https://app.example.com, or *"),
        "origins, comma-separated, whose pages may call `/v1/…` from a browser with a key; `*`: all",
    )
    mcp: Switch = setting(
        "off",
        Choice(get_args(Switch)),
        "`on`: assistants may call tools at `/mcp` by the Model Context Protocol with a key; needs the extra"
        " `mcp`: see [assistants](../mcp.md#over-http); `off`: the path is not there",
    )
    log_level: LogLevel = setting(
        "info", Choice(get_args(LogLevel)), "`debug`, `info`, `warning`, `error`", "TENUTO_LOG"
    )
    log_format: LogFormat = setting(
        "auto",
        Choice(get_args(LogFormat)),
        "`json`: a JSON object a line; `text`: a line for people, coloured on a terminal unless NO_COLOR is "
        "set; `auto`: text on a terminal, and there warnings and errors alone; JSON elsewhere; also "
        "`--log-format`",
    )
    otlp_endpoint: str = setting(
        NONE,
        Form(is_endpoint, "an address such as http://127.0.0.1:4318"),
        "the base address of a collector, such as `http://127.0.0.1:4318`, that gets traces and metrics by"
        " OTLP over HTTP; needs the extra `otel`: see [tracing](tracing.md); `none`: nothing is sent",
    )
    models: Mapping[str, ModelSettings] = field(
        default_factory=dict, metadata=declaration(Models(), "a table for each model: see below")
    )

    def initial_credit_micros(self) -> int:
        """What a new account begins with."""
        return 0 if self.prices == "free" else micros("initial_credit", self.initial_credit, [])

    def base(self) -> str:
        """What stands before every path of ours; empty at the root."""
        return "" if self.base_path == NONE else self.base_path


DECLARED: Mapping[str, Declaration] = declared(Settings)
"""By the name of the setting, in their order."""
