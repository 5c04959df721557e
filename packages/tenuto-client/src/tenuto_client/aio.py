"""`AsyncTenuto`: the service, for asyncio. Made from `client.py`."""

from __future__ import annotations

from pathlib import Path

from tenuto_client.aio_resources import Account, Chat, Images, Jobs, Models, Recognition, Speech, Voices
from tenuto_client.exchange import Clock
from tenuto_client.links import link_to
from tenuto_client.session import AsyncSession


class AsyncTenuto:
    """A Tenuto service. Close it, or use it in an `async with` block.

    `api_key` and `base_url` are taken from TENUTO_API_KEY and TENUTO_BASE_URL, or from what `tenuto login`
    saved, when they are left out. `timeout` is how many seconds a request may go without a byte. A request
    is sent again at most `max_retries` times, never under another key. Jobs are noted in a journal on disk
    before they leave (`journal=False`: not; a path: there): `tenuto resume` finds what a crash interrupted.

    Raises NotConfigured, InvalidSetting.
    """

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        timeout: float = 60.0,
        max_retries: int = 5,
        journal: bool | str | Path = True,
        clock: Clock | None = None,
    ) -> None:
        link = link_to(
            api_key, base_url, timeout=timeout, max_retries=max_retries, journal=journal, clock=clock
        )
        self._session = AsyncSession(link)
        self.speech = Speech(self._session)
        self.recognition = Recognition(self._session)
        self.images = Images(self._session)
        self.chat = Chat(self._session)
        self.voices = Voices(self._session)
        self.models = Models(self._session)
        self.jobs = Jobs(self._session)
        self.account = Account(self._session)

    @property
    def base_url(self) -> str:
        """The address of the service."""
        return self._session.link.base_url

    async def close(self) -> None:
        """Close its connections."""
        await self._session.driver.close()

    async def __aenter__(self) -> AsyncTenuto:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
