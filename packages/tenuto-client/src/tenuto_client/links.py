"""How a client's arguments become a link: address, key, journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tenuto_client import settings
from tenuto_client.errors import InvalidSetting
from tenuto_client.exchange import Clock, Link, Retry, SystemClock


def link_to(
    api_key: str | None,
    base_url: str | None,
    *,
    timeout: float,
    max_retries: int,
    journal: bool | str | Path,
    clock: Clock | None,
    on_retry: Callable[[Retry], None] | None = None,
) -> Link:
    """The link that the arguments describe; what is left out comes from variables and `tenuto login`.

    Raises NotConfigured, InvalidSetting.
    """
    if not timeout > 0 or max_retries < 0:
        raise InvalidSetting("timeout is above 0 seconds, max_retries 0 or more")
    found = settings.credentials(api_key, base_url)
    kept = None
    if journal is not False:
        from tenuto_client.journal import Journal

        kept = Journal(settings.journal_folder() if journal is True else Path(journal))
    return Link(found.base_url, found.api_key, timeout, max_retries, kept, clock or SystemClock(), on_retry)
