"""`tenuto mcp`: the server of one folder over standard input and output."""

from __future__ import annotations

import asyncio

from mcp.server.stdio import stdio_server

from tenuto_client.exchange import Link
from tenuto_client.paths import expanded
from tenuto_client.session import link_to
from tenuto_mcp.folder import Folder
from tenuto_mcp.local import LocalDesk
from tenuto_mcp.server import make_server

TIMEOUT_S = 60.0
RETRIES = 5
"""Of one request; half a minute in all."""


def serve(folder: str, url: str | None) -> None:
    """Serve until standard input ends. Raises InvalidSetting, NotConfigured, before anything is read."""
    named = Folder(expanded(folder))
    link: Link = link_to(None, url, timeout=TIMEOUT_S, max_retries=RETRIES, journal=named.own, clock=None)
    asyncio.run(_serve(LocalDesk(link, named)))


async def _serve(desk: LocalDesk) -> None:
    server = make_server(desk)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
