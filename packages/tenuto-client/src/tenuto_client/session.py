"""What the objects of one client share, and how a link is made from a client's arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tenuto_client import settings
from tenuto_client.drive import AsyncDriver, Driver
from tenuto_client.errors import InvalidSetting
from tenuto_client.exchange import Clock, Link, Retry, SystemClock
from tenuto_client.steps import Flow

T = TypeVar("T")


class Session:
    """The link, the driver, and the models chosen so far; for threads."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.driver = Driver(link)
        self.models: dict[str, str] = {}
        """The model chosen for each kind."""

    def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""
        return self.driver.run(flow)


class AsyncSession:
    """The same for asyncio."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.driver = AsyncDriver(link)
        self.models: dict[str, str] = {}

    async def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""
        return await self.driver.run(flow)


def link_to(
    api_key: str | None,
    base_url: str | None,
    *,
    timeout: float,
    max_retries: int,
    journal: bool | str | Path,
    clock: Clock | None,
    on_retry: Callable[[Retry], None] | None = None,
    traceparent: Callable[[], str | None] | None = None,
) -> Link:
    """The link for these arguments; missing ones come from the environment, then from `tenuto login`.

    Raises NotConfigured, InvalidSetting.
    """
    if not timeout > 0 or max_retries < 0:
        raise InvalidSetting("timeout must be above 0 seconds, and max_retries at least 0")
    login = settings.credentials(api_key, base_url)
    opened = None
    if journal is not False:
        from tenuto_client.journal import Journal

        opened = Journal(settings.journal_folder() if journal is True else Path(journal))
    return Link(
        login.base_url,
        login.api_key,
        timeout,
        max_retries,
        opened,
        clock or SystemClock(),
        on_retry,
        traceparent,
    )
