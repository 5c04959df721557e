"""The service's address and the API key: arguments first, then the environment, then `tenuto login`.

A saved key is only ever sent to the address that it was saved for.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tenuto_client.errors import InvalidSetting, NotConfigured
from tenuto_client.paths import expanded

DEFAULT_URL = "http://127.0.0.1:8080"
THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
API_KEY = "TENUTO_API_KEY"
BASE_URL = "TENUTO_BASE_URL"
JOURNAL = "TENUTO_JOURNAL"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A base address and the key for it."""

    base_url: str
    api_key: str = field(repr=False)
    source: str = ""
    """Where the key comes from, for display."""


def credentials(
    api_key: str | None = None,
    base_url: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Credentials:
    """The address and the key to use. Raises NotConfigured, InvalidSetting."""
    url = current_url(base_url, environment)
    if api_key is not None:
        return Credentials(url, _checked_key(api_key), "given")
    if environment.get(API_KEY):
        return Credentials(url, _checked_key(environment[API_KEY]), API_KEY)
    key = saved_key(url, environment)
    if not key:
        raise NotConfigured(f"no key for {url}: run `tenuto login` or set {API_KEY}")
    return Credentials(url, _checked_key(key), str(credentials_file(environment)))


def save(login: Credentials, environment: Mapping[str, str] = os.environ) -> Path:
    """Save a key for its address, readable by this user only, and make that address the default."""
    saved = _read(environment)
    saved["current"] = login.base_url
    saved.setdefault("keys", {})[login.base_url] = login.api_key
    return _write(saved, environment)


def forget(base_url: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Delete the key of an address; False if there was none."""
    saved = _read(environment)
    if saved.get("keys", {}).pop(base_url, None) is None:
        return False
    if saved.get("current") == base_url:
        del saved["current"]
    _write(saved, environment)
    return True


def current_url(base_url: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The address to use: the chosen one, or the default."""
    return chosen_url(base_url, environment) or DEFAULT_URL


def chosen_url(base_url: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The address from the argument, the environment or the last login; None if none of them has one."""
    url = base_url or environment.get(BASE_URL) or _read(environment).get("current")
    return checked_url(url) if url else None


def logins(environment: Mapping[str, str] = os.environ) -> list[Credentials]:
    """All saved logins, with that of the default address first."""
    saved = _read(environment)
    file = str(credentials_file(environment))
    found = [Credentials(url, str(key), file) for url, key in sorted(saved.get("keys", {}).items())]
    return sorted(found, key=lambda login: login.base_url != saved.get("current"))


def saved_key(base_url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The key that `tenuto login` saved for an address."""
    key = _read(environment).get("keys", {}).get(base_url)
    return str(key) if key else None


def checked_url(text: str) -> str:
    """The address without a trailing slash or `/v1`. Raises InvalidSetting."""
    url = text.strip().rstrip("/").removesuffix("/v1")
    if not _is_address(url):
        raise InvalidSetting(f"{text!r} is not a base address; one looks like {DEFAULT_URL}")
    return url


def credentials_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where `tenuto login` keeps keys."""
    return _home(environment, "XDG_CONFIG_HOME", ".config") / "tenuto" / "credentials.json"


def journal_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """The default folder of the journal."""
    named = environment.get(JOURNAL)
    if named:
        return expanded(named)
    return _home(environment, "XDG_STATE_HOME", ".local/state") / "tenuto" / "journal"


def _home(environment: Mapping[str, str], variable: str, inside: str) -> Path:
    named = environment.get(variable)
    return Path(named) if named else Path(environment.get("HOME") or Path.home()) / inside


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return sound and not (parts.query or parts.fragment or parts.username)


def _checked_key(key: str) -> str:
    key = key.strip()
    if not key:
        raise InvalidSetting("no key was given; the studio or `tenuto admin keys create` makes one")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidSetting("this is not an API key: a key is one ASCII word that begins with tn_")
    return key


def _read(environment: Mapping[str, str]) -> dict[str, Any]:
    file = credentials_file(environment)
    try:
        saved = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidSetting(f"{file} cannot be read: {error}; remove it and run `tenuto login`") from error
    if not isinstance(saved, dict):
        raise InvalidSetting(f"{file} was not written by `tenuto login`; remove it and log in again")
    return saved


def _write(saved: dict[str, Any], environment: Mapping[str, str]) -> Path:
    file = credentials_file(environment)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # mkstemp creates it readable by this user only.
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".credentials-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as temporary:
            json.dump(saved, temporary, indent=2)
            temporary.flush()
            os.fsync(temporary.fileno())
        Path(name).replace(file)
    except OSError as error:
        with suppress(OSError):
            Path(name).unlink()
        raise OSError(error.errno, error.strerror, str(file)) from error
    return file
