"""Services that the same user runs on this machine: finds them, and logs in to them without a key.

This package itself knows none. The distribution that runs services registers a module that finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from tenuto_client import settings
from tenuto_client.commands.words import t
from tenuto_client.errors import NotConfigured

if TYPE_CHECKING:
    from tenuto_client.commands.console import Console

_FINDERS: list[str] = []


class LocalService(Protocol):
    """A running service whose data folder this user may write to."""

    url: str
    folder: str

    def new_key(self) -> tuple[str, str]:
        """A new key, and the name of its account."""

    def revoke(self, key: str) -> bool:
        """Revoke a key from `new_key`; False for any other key."""

    def credit_command(self, key: str) -> str | None:
        """The operator's command that adds credit to a key's account; None if there is no such key."""


def add(module: str) -> None:
    """Register a module whose `services()` lists running services, and `names(kind)` names in their data."""
    _FINDERS.append(module)


def services(url: str | None = None) -> list[LocalService]:
    """The running services; with an address, only the one at that address."""
    found: list[LocalService] = [one for name in _FINDERS for one in import_module(name).services()]
    return [one for one in found if url is None or one.url == url.replace("//localhost:", "//127.0.0.1:")]


def names(kind: str) -> list[str]:
    """The names of a kind, `accounts`, in the data folder that the operator's commands would use."""
    return [name for finder in _FINDERS for name in import_module(finder).names(kind)]


def offer(console: Console, base_url: str | None, missing: NotConfigured) -> None:
    """Without a key, log in to the user's own service if they agree. Raises NotConfigured otherwise.

    If an address is given, or known from the last login, it must be that service's address.
    """
    running = services(settings.chosen_url(base_url))
    if not running:
        raise missing
    if len(running) > 1 or not console.can_ask or not ask(console, running[0]):
        raise not_logged_in(running)
    log_in(console, running[0])


def not_logged_in(running: Sequence[LocalService]) -> NotConfigured:
    """The error, with the command that logs in."""
    urls = ", ".join(service.url for service in running)
    if len(running) > 1:
        return NotConfigured(f"several services of yours run here: {urls}", remedy="tenuto login --local URL")
    return NotConfigured(f"a service of yours runs at {urls}", remedy="tenuto login --local")


def credit_command(console: Console) -> str | None:
    """The command with which users add credit themselves; None unless the service is their own, here."""
    link = console.link
    commands = (service.credit_command(link.api_key) for service in services(link.base_url))
    return next(commands, None)


def ask(console: Console, service: LocalService) -> bool:
    """Whether the user wants to use this service."""
    question = "Your service runs at {url}, with its data in {folder}. Log in to it?"
    return console.confirm(t(question, url=service.url, folder=service.folder), default=True)


def log_in(console: Console, service: LocalService) -> tuple[settings.Credentials, int]:
    """Make a key and save it; returns the login and how many models it can use."""
    key, account = service.new_key()
    try:
        login, models = save(console, service.url, key)
    except BaseException:
        service.revoke(key)
        raise
    console.tell(
        t(
            "logged in to {url} as {account}; the key is saved in {file}, `tenuto logout` removes it",
            url=login.base_url,
            account=account,
            file=login.source,
        )
    )
    return login, models


def save(console: Console, url: str, key: str) -> tuple[settings.Credentials, int]:
    """Save a key if the service accepts it; returns the login and how many models it can use."""
    from tenuto_client import reads
    from tenuto_client.drive import Driver

    link = console.link_to(url, key)
    models = Driver(link).run(reads.models(link))
    file = settings.save(settings.Credentials(link.base_url, link.api_key))
    return settings.Credentials(link.base_url, link.api_key, str(file)), len(models)
