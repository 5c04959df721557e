"""What the parts of one client share: its link, what drives flows over it, the models that it has chosen."""

from __future__ import annotations

from typing import TypeVar

from tenuto_client.drive import AsyncDriver, Driver
from tenuto_client.exchange import Link
from tenuto_client.steps import Flow

T = TypeVar("T")


class Session:
    """Of a program that runs in threads."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.driver = Driver(link)
        self.models: dict[str, str] = {}
        """The model that was chosen for each kind."""

    def run(self, flow: Flow[T]) -> T:
        """What the flow comes to."""
        return self.driver.run(flow)


class AsyncSession:
    """The same on asyncio."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.driver = AsyncDriver(link)
        self.models: dict[str, str] = {}

    async def run(self, flow: Flow[T]) -> T:
        """What the flow comes to."""
        return await self.driver.run(flow)
