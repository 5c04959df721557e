"""Settings: from a TOML file and `TENUTO_*` variables, checked all at once, before anything starts.

Variables override the file, command-line options override both. The only files opened here are the
configuration itself and the tables of models that were added with `tenuto admin models add`.
"""

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tenuto import failpoints
from tenuto.config.model_settings import (
    CHAT_FEATURES,
    IMAGE_ADDRESSES,
    AdapterSettings,
    ModelSettings,
    OwnPrice,
    Price,
    RaySettings,
    UpstreamSettings,
)
from tenuto.config.setting import fault, no_setting, read
from tenuto.config.settings import DECLARED, Settings
from tenuto.config.storage import DIRECTORY, WHAT, is_location
from tenuto.errors import Fault, SettingsInvalid
from tenuto.feature import features
from tenuto.rules import Field, by_name, declared

__all__ = [
    "ADDED",
    "CHAT_FEATURES",
    "IMAGE_ADDRESSES",
    "AdapterSettings",
    "ModelSettings",
    "OwnPrice",
    "Price",
    "RaySettings",
    "Settings",
    "UpstreamSettings",
    "declarations",
    "dump",
    "load",
    "undump",
]

PREFIX = "TENUTO_"
FOLDER = Path("tenuto-data")
"""The data folder of a command to which nothing names one."""
ADDED = "models"
"""The folder, in the data folder, with the tables of models that were added."""
_NO_SETTINGS = (failpoints.VARIABLE, "TENUTO_CONFIG", "TENUTO_API_KEY", "TENUTO_BASE_URL", "TENUTO_JOURNAL")


@cache
def declarations() -> Mapping[str, Field]:
    """What is declared of each setting, by its name: those of features, then the core's."""
    parts = [feature.part(feature.settings) for feature in features().values() if feature.settings]
    return by_name(field for part in (*parts, Settings) for field in declared(part))


def load(
    environment: Mapping[str, str], *, file: Path | None = None, options: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from the file, the variables and the options; SettingsInvalid names every wrong one."""
    faults: list[Fault] = []
    values: dict[str, Any] = {}
    named = environment.get("TENUTO_CONFIG")
    file = file or (Path(named) if named else None)
    if file is not None:
        values |= _from_file(file, faults)
    values |= _from_environment(environment, faults)
    values |= {name: value for name, value in (options or {}).items() if value is not None}
    values.setdefault("folder", FOLDER)
    # As in weights.cache, which this package may not import: a cache shared by all of a user's programs.
    values.setdefault("cache", f"{environment.get('XDG_CACHE_HOME') or '~/.cache'}/tenuto")
    _add_models(values, faults)
    known = declarations()
    checked = {name: read(known[name].rule, name, value, faults) for name, value in values.items()}
    _check_together(checked, faults)
    if faults:
        raise SettingsInvalid("\n  ".join(("settings are wrong:", *map(str, faults))))
    theirs = {name: checked.pop(name) for name in checked.keys() - DECLARED.keys()}
    return Settings(**checked, features=theirs)


def dump(settings: Settings) -> str:
    """Settings as text, for a child process."""
    return msgspec.json.encode(settings, enc_hook=str).decode()


def undump(text: str) -> Settings:
    """The settings that `dump` wrote."""
    return msgspec.json.decode(text, type=Settings, dec_hook=lambda wanted, value: wanted(value))


def _from_file(file: Path, faults: list[Fault]) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        hint = "; texts are written in quotes" if "Invalid value" in str(error) else ""
        faults.append(fault(str(file), f"cannot be read: {error}{hint}"))
        return {}
    known = declarations().keys()
    faults.extend(no_setting(f"{file}: {name}", name, known) for name in content if name not in known)
    return {name: value for name, value in content.items() if name in known}


def _add_models(values: dict[str, Any], faults: list[Fault]) -> None:
    """Merge in the tables of models that were added; the operator's own file overrides them, key by key."""
    own = values.get("models", {})
    folder = values["folder"]
    if not isinstance(own, dict) or not isinstance(folder, str | Path):
        return
    tables: dict[str, Any] = {}
    with suppress(RuntimeError):  # `~` without a home folder is reported as a fault of `folder`.
        for file in sorted((Path(folder).expanduser() / ADDED).glob("*.toml")):
            added = _from_file(file, faults).get("models", {})
            if isinstance(added, dict):
                tables |= added
            else:
                faults.append(fault(f"{file}: models", 'write one table per model, [models."NAME"]'))
    for name, table in tables.items():
        mine = own.get(name, {})
        is_merged = isinstance(mine, dict) and isinstance(table, dict)
        own = {**own, name: {**table, **mine} if is_merged else mine or table}
    if own:
        values["models"] = own


def _from_environment(environment: Mapping[str, str], faults: list[Fault]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    declared_names = declarations()
    named_elsewhere = {one.named: name for name, one in declared_names.items() if one.named is not None}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX) or variable in _NO_SETTINGS:
            continue
        name = named_elsewhere.get(variable, variable.removeprefix(PREFIX).lower())
        if name == "models" or name not in declared_names:
            known = [*(PREFIX + each.upper() for each in declared_names), *named_elsewhere, *_NO_SETTINGS]
            faults.append(no_setting(variable, variable, known))
        else:
            values[name] = text
    return values


def _check_together(values: Mapping[str, Any], faults: list[Fault]) -> None:
    database = values.get("database", "sqlite:///tenuto.db")
    if isinstance(database, str):
        scheme = database.partition("://")[0] if "://" in database else ""
        if scheme not in ("sqlite", "postgresql", "postgres"):
            what = f"{scheme[:20]}:// is not known" if scheme else "is not an address"
            faults.append(fault("database", f"{what}; write sqlite:///tenuto.db or postgresql://…"))
    blobs = values.get("blobs", DIRECTORY)
    if isinstance(blobs, str) and not is_location(blobs):
        faults.append(fault("blobs", f"is not a location; write {WHAT}"))
    heartbeat, silence = values.get("heartbeat_s", 5.0), values.get("silence_s", 30.0)
    if isinstance(heartbeat, float) and isinstance(silence, float) and silence < 3 * heartbeat:
        message = "must be at least three heartbeats (heartbeat_s); otherwise jobs are taken from"
        faults.append(fault("silence_s", f"{message} workers that are still alive"))
