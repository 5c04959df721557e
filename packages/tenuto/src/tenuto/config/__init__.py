"""Settings: from a TOML file and `TENUTO_*` variables, checked all at once, before anything starts.

Variables win over the file, command-line options over both. Nothing here opens a file but the
configuration itself.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tenuto import failpoints
from tenuto.addresses import NONE, are_networks, is_origin, is_prefix
from tenuto.config.adapters import AdapterSettings
from tenuto.config.hosts import RaySettings
from tenuto.config.models import (
    ModelSettings,
    OwnPrice,
    Price,
    UpstreamSettings,
    micros,
    model_from,
    read_models,
)
from tenuto.config.storage import DIRECTORY, WHAT, is_place, is_region
from tenuto.errors import SettingsInvalid

__all__ = [
    "AdapterSettings",
    "ModelSettings",
    "OwnPrice",
    "Price",
    "RaySettings",
    "Settings",
    "UpstreamSettings",
    "dump",
    "load",
    "undump",
]

PREFIX = "TENUTO_"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an operator may set. 0 means none wherever a limit is meant."""

    folder: Path
    """Where the database, the blobs and the locks are."""
    database: str = "sqlite:///tenuto.db"
    migrations: Literal["apply", "wait"] = "apply"
    """Whether a process that starts brings the database up to date, or waits for `tenuto admin migrate`."""
    blobs: str = DIRECTORY
    """Where the bytes are: the data folder, or s3://BUCKET/PREFIX."""
    s3_endpoint: str = "none"
    """Of a store that is not Amazon's: https://s3.example.com."""
    s3_region: str = "none"
    """None: what AWS_REGION or AWS_DEFAULT_REGION say, or us-east-1."""
    s3_addressing: Literal["path", "virtual"] = "path"
    """Whether the bucket stands in the path or is the first label of the host's name."""
    s3_ca_file: str = "none"
    """Certificates, as PEM, that the store's is signed with; trusted besides the system's."""
    s3_timeout_s: float = 20.0
    """Of one request; a part of 8 MiB must go up in so long."""
    cache: Path = Path.home() / ".cache" / "tenuto"
    """Where `tenuto models pull` puts weights; `load` honours XDG_CACHE_HOME, too."""
    engines: Literal["real", "fake"] = "real"
    host: str = "127.0.0.1"
    port: int = 8080
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0
    """Where /metrics answers; 0: nowhere."""
    worker_metrics_port: int = 0
    """Where a worker answers /metrics, /livez and /readyz; 0: nowhere."""
    requests_per_second: int = 100
    """Per key; the burst is twice as many."""
    queued_jobs: int = 20_000
    """Per account and lane."""
    uploads: int = 8
    """Under way at once, per account."""
    stored_mib: int = 20 * 1024
    """What an account may have stored by uploading inputs."""
    stored_files: int = 10_000
    """How many uploads an account may have stored."""
    retention_days: int = 0
    """Requests, results and inputs older than this are erased; 0: none. Records and segments stay."""
    job_body_kib: int = 1024
    """The largest body of a job; it stands in memory, so there is no "none"."""
    chat_body_kib: int = 4096
    """The same of a chat."""
    connections: int = 800
    """Open at once in a process; for further ones idle ones are closed, or else they are refused (503)."""
    connections_per_address: int = 400
    """The same from one address that is none of `trusted_proxies`."""
    requests_at_once: int = 200
    """Under way at once, per account in a process."""
    slow_head_s: int = 10
    """A request whose head takes longer is refused (408)."""
    slow_body_s: int = 10
    """A body may take so long, and a second more for every 64 KiB that have come; beyond: 408."""
    slow_reader_s: int = 30
    """A client that takes less than 64 KiB of its answer in so long is cut off."""
    speech_slots: int = 1
    recognition_slots: int = 8
    image_slots: int = 1
    drain_s: int = 20
    """How long SIGTERM waits for running jobs before they are given back."""
    heartbeat_s: float = 5.0
    silence_s: float = 30.0
    """How long a worker's beat must stand still before another machine's upkeep rescues its attempts."""
    host_grace_s: float = 5.0
    """Between asking an engine to stop and killing its process."""
    engine_silence_s: int = 300
    """An engine that says nothing for so long hangs: its process is killed, the job tried again."""
    engine_memory_mib: int = 0
    """What a worker's engines may take together: idle ones make room, one that is larger is never loaded."""
    queued_chats: int = 16
    """Chats that wait for one model; more are refused (429)."""
    chat_timeout_s: int = 600
    """A chat that is not answered by then is given up."""
    registration: Literal["open", "invite", "closed"] = "invite"
    """Who may make an account in the studio: everybody, whoever has a link, nobody."""
    initial_credit: str = "0"
    """CNY that an account made in the studio or by an invitation begins with, as text."""
    session_idle_hours: int = 168
    """A session of the studio that is not used for so long has ended."""
    session_days: int = 30
    """A session ends then, however much it is used."""
    public_url: str = "none"
    """Where people reach the studio, for the links that are printed; none: where we listen."""
    base_path: str = "none"
    """The path on that host below which everything is, such as /tenuto; none: at the root."""
    trusted_proxies: str = "none"
    """Addresses whose X-Forwarded-For and X-Forwarded-Proto are believed, comma-separated."""
    log_level: str = "info"
    models: Mapping[str, ModelSettings] = field(default_factory=dict)

    def initial_credit_micros(self) -> int:
        """What an account made in the studio begins with."""
        return micros("initial_credit", self.initial_credit, [])

    def base(self) -> str:
        """What stands before every path of ours; empty at the root."""
        return "" if self.base_path == NONE else self.base_path


_RANGES: dict[str, tuple[float, float]] = {
    "port": (0, 65535),
    "metrics_port": (0, 65535),
    "worker_metrics_port": (0, 65535),
    "requests_per_second": (0, 1_000_000),
    "queued_jobs": (0, 10_000_000),
    "uploads": (0, 10_000),
    "stored_mib": (0, 1 << 40),
    "stored_files": (0, 1_000_000_000),
    "retention_days": (0, 36_500),
    "job_body_kib": (1, 65_536),
    "chat_body_kib": (1, 65_536),
    "connections": (1, 100_000),
    "connections_per_address": (0, 100_000),
    "requests_at_once": (0, 100_000),
    "s3_timeout_s": (0.5, 600),
    "slow_head_s": (1, 600),
    "slow_body_s": (1, 600),
    "slow_reader_s": (1, 600),
    "speech_slots": (1, 1000),
    "recognition_slots": (1, 1000),
    "image_slots": (1, 1000),
    "drain_s": (0, 3600),
    "heartbeat_s": (0.05, 60),
    "silence_s": (0.2, 3600),
    "host_grace_s": (0.1, 60),
    "engine_silence_s": (0, 86_400),
    "engine_memory_mib": (0, 1 << 30),
    "queued_chats": (0, 100_000),
    "chat_timeout_s": (1, 86_400),
    "session_idle_hours": (1, 8760),
    "session_days": (1, 365),
}
_CHOICES = {
    "s3_addressing": ("path", "virtual"),
    "migrations": ("apply", "wait"),
    "engines": ("real", "fake"),
    "registration": ("open", "invite", "closed"),
    "log_level": ("debug", "info", "warning", "error"),
}
_TEXTS = {
    "s3_endpoint": (is_origin, "an address such as https://s3.example.com"),
    "s3_region": (is_region, "the name of a region such as eu-central-1"),
    "public_url": (is_origin, "an address such as https://tenuto.example.com"),
    "base_path": (is_prefix, "a path such as /tenuto, without a slash at its end"),
    "trusted_proxies": (are_networks, "a list of addresses such as 127.0.0.1, 10.0.0.0/8"),
}
_PATHS = ("folder", "cache")
_FLOATS = ("s3_timeout_s", "heartbeat_s", "silence_s", "host_grace_s")
_NAMED_ELSEWHERE = {"TENUTO_DATA": "folder", "TENUTO_LOG": "log_level"}
_NO_SETTINGS = (failpoints.VARIABLE, "TENUTO_CONFIG", "TENUTO_API_KEY", "TENUTO_BASE_URL", "TENUTO_JOURNAL")


def load(
    environment: Mapping[str, str], *, file: Path | None = None, options: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from the file, the variables and the options given; SettingsInvalid names every wrong one."""
    faults: list[str] = []
    values: dict[str, Any] = {}
    named = environment.get("TENUTO_CONFIG")
    file = file or (Path(named) if named else None)
    if file is not None:
        values |= _from_file(file, faults)
    values |= _from_environment(environment, faults)
    values |= {name: value for name, value in (options or {}).items() if value is not None}
    values.setdefault("folder", "tenuto-data")
    # As in weights.cache, which stands above this room: a cache that all programs of a user share.
    values.setdefault("cache", f"{environment.get('XDG_CACHE_HOME') or '~/.cache'}/tenuto")
    checked = {name: _checked(name, value, faults) for name, value in values.items()}
    _check_together(checked, faults)
    if faults:
        raise SettingsInvalid("settings are wrong:\n  " + "\n  ".join(faults))
    return Settings(**checked)


def dump(settings: Settings) -> str:
    """Settings as text, for a child process."""
    values = asdict(settings)
    return json.dumps({name: str(value) if name in _PATHS else value for name, value in values.items()})


def undump(text: str) -> Settings:
    """The settings that `dump` wrote."""
    values = json.loads(text)
    models = {name: model_from(own) for name, own in values.pop("models").items()}
    return Settings(**{name: _checked(name, value, []) for name, value in values.items()}, models=models)


def _from_file(file: Path, faults: list[str]) -> dict[str, Any]:
    try:
        found = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        faults.append(f"{file}: cannot be read: {error}")
        return {}
    known = set(Settings.__dataclass_fields__)
    faults.extend(
        f"{file}: {name}: there is no such setting; there are {', '.join(sorted(known))}"
        for name in found
        if name not in known
    )
    return {name: value for name, value in found.items() if name in known}


def _from_environment(environment: Mapping[str, str], faults: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable in _NO_SETTINGS:
            continue
        name = _NAMED_ELSEWHERE.get(variable, variable.removeprefix(PREFIX).lower())
        if name == "models" or name not in Settings.__dataclass_fields__:
            faults.append(f"{variable}: there is no such setting")
        else:
            values[name] = text
    return values


def _checked(name: str, value: Any, faults: list[str]) -> Any:
    if name == "models":
        return read_models(value, faults)
    if name in _PATHS:
        if isinstance(value, Path) or (isinstance(value, str) and value):
            return Path(value).expanduser()
        faults.append(f"{name}: {value!r} is not a path")
        return Path()
    if name in _CHOICES:
        if value not in _CHOICES[name]:
            faults.append(f"{name}: {value!r} is none of {', '.join(_CHOICES[name])}")
        return value
    if name in _RANGES:
        return _number(name, value, faults)
    if not isinstance(value, str) or not value:
        faults.append(f"{name}: {value!r} is not a text")
    elif name in _TEXTS and not _TEXTS[name][0](value):
        faults.append(f"{name}: {value!r} is not {_TEXTS[name][1]}")
    elif name == "initial_credit":
        micros(name, value, faults)
    return value


def _number(name: str, value: Any, faults: list[str]) -> int | float:
    low, high = _RANGES[name]
    kind: type[int] | type[float] = float if name in _FLOATS else int
    try:
        # Neither true nor 1.5 is silently made an integer.
        is_other = isinstance(value, bool) or (isinstance(value, float) and kind is int)
        number = None if is_other else kind(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not low <= number <= high:
        what = "a number" if kind is float else "an integer"
        faults.append(f"{name}: {value!r} is not {what} from {low} to {high}")
        return 0
    return number


def _check_together(values: Mapping[str, Any], faults: list[str]) -> None:
    database = values.get("database", "sqlite:///tenuto.db")
    if isinstance(database, str):
        scheme = database.partition("://")[0] if "://" in database else ""
        if scheme not in ("sqlite", "postgresql", "postgres"):
            what = f"{scheme[:20]}:// is not known" if scheme else "that is no address"
            faults.append(f"database: {what}; write sqlite:///tenuto.db or postgresql://…")
    blobs = values.get("blobs", DIRECTORY)
    if isinstance(blobs, str) and not is_place(blobs):
        faults.append(f"blobs: that is no place; write {WHAT}")
    heartbeat, silence = values.get("heartbeat_s", 5.0), values.get("silence_s", 30.0)
    if isinstance(heartbeat, float) and isinstance(silence, float) and silence < 3 * heartbeat:
        faults.append(
            "silence_s: must be at least three heartbeats (heartbeat_s); otherwise jobs are taken from"
            " workers that are still alive"
        )
