"""A TCP proxy that breaks on demand: for the links to a database, to an upstream and from clients.

It runs in a thread of its own and knows nothing of what it carries. A test turns faults on and off while
bytes flow; every method may be called from any thread and has had its effect when it returns.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

BLOCK_BYTES = 64 * 1024
CONTROL_S = 10.0
LONGEST_MARK = 64
# A linger of no time: closing sends a reset instead of a polite end.
_RESET = struct.pack("ii", 1, 0)


class Towards(Enum):
    """Which way bytes go."""

    SERVER = "server"
    CLIENT = "client"


BOTH = (Towards.SERVER, Towards.CLIENT)
Address = tuple[str, int] | Path


@dataclass(eq=False)
class _Link:
    """A client's connection and ours to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    passed_bytes: dict[Towards, int] = field(default_factory=lambda: dict.fromkeys(BOTH, 0))

    def break_off(self, *, is_reset: bool) -> None:
        for writer in (self.client, self.server):
            if writer is None:
                continue
            if is_reset and (opened := writer.get_extra_info("socket")).family != socket.AF_UNIX:
                with suppress(OSError):  # It is closed already.
                    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            # An abort forgets what is not sent yet; the polite end comes after it.
            (writer.transport.abort if is_reset else writer.close)()


@dataclass
class _Trap:
    """Cuts the link on which the mark comes by for the nth time; the block that ends it does not pass."""

    mark: bytes
    left: int
    refuses: bool = False


class Proxy:
    """Listens on a port of this machine and passes everything on to a server, until told otherwise."""

    def __init__(self, server: Address, host: str = "127.0.0.1", port: int = 0) -> None:
        self._host = host
        self._server = server
        self._links: set[_Link] = set()
        self._open = {way: asyncio.Event() for way in BOTH}
        self._delay_s = 0.0
        self._limits: dict[Towards, int] = {}
        self._traps: dict[Towards, _Trap] = {}
        self._is_reset = True
        self._cuts = 0
        self._cut = threading.Condition()
        self._listening: asyncio.Server | None = None
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.pass_on()

    def pass_on(self) -> None:
        """No fault any more; links that were cut stay cut."""
        self._do(self._pass_on())

    def refuse(self) -> None:
        """New connections are refused; those that are there go on."""
        self._do(self._refuse())

    def cut(self, *, is_reset: bool = True) -> int:
        """Cuts all links, now and once; gives how many there were."""
        return self._do(self._cut_all(is_reset))

    def stall(self, *ways: Towards) -> None:
        """Nothing passes any more (that way), and nothing is lost: it waits for `pass_on`."""
        self._do(self._set_open(set(BOTH) - set(ways or BOTH)))

    def delay(self, seconds: float) -> None:
        """Every block waits so long, in both directions."""
        self._delay_s = seconds

    def cut_after(self, size_bytes: int, towards: Towards, *, is_reset: bool = False) -> None:
        """Cuts each link once exactly so many bytes have passed; what a link has carried before counts."""
        self._limits[towards] = size_bytes
        self._is_reset = is_reset

    def cut_at(self, mark: bytes, towards: Towards, *, nth: int = 1, and_refuse: bool = False) -> None:
        """Cuts one link, once, at the nth of these marks; neither its block nor what follows passes.

        Towards the server a request is lost; towards the client an answer is: a commit was done, or a chat
        was paid for, and whoever asked does not know it. `and_refuse`: nobody may connect from then on.
        """
        assert 0 < len(mark) <= LONGEST_MARK
        self._traps[towards] = _Trap(mark, nth, and_refuse)

    def cuts(self) -> int:
        """How many links were cut so far."""
        return self._cuts

    def wait_cuts(self, cuts: int, timeout_s: float) -> bool:
        """Whether so many links were cut in time."""
        with self._cut:
            return self._cut.wait_for(lambda: self._cuts >= cuts, timeout_s)

    def close(self) -> None:
        """Cuts all links and ends the thread."""
        self._do(self._refuse())
        self._do(self._cut_all(is_reset=True))
        self._do(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONTROL_S)
        self._loop.close()

    def _do(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(CONTROL_S)

    async def _pass_on(self) -> None:
        self._delay_s = 0.0
        self._limits.clear()
        self._traps.clear()
        await self._set_open(set(BOTH))
        if self._listening is None:
            # The port that it had: whoever connects again looks for us there.
            self._listening = await asyncio.start_server(self._accept, self._host, self.port)
            self.port = self._listening.sockets[0].getsockname()[1]

    async def _refuse(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def _end_tasks(self) -> None:
        """Links that were being opened, or wait at a closed gate, end before their loop does."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _set_open(self, ways: set[Towards]) -> None:
        for way, gate in self._open.items():
            (gate.set if way in ways else gate.clear)()

    async def _cut_all(self, is_reset: bool) -> int:
        links = list(self._links)
        for link in links:
            self._break(link, is_reset=is_reset)
        if is_reset:
            # An abort closes its socket only in the loop's next turn.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return len(links)

    def _break(self, link: _Link, *, is_reset: bool) -> None:
        link.break_off(is_reset=is_reset)
        self._links.discard(link)
        with self._cut:
            self._cuts += 1
            self._cut.notify_all()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        self._links.add(link)
        try:
            await self._open[Towards.SERVER].wait()
            from_server, link.server = await self._connect()
            await asyncio.gather(
                self._carry(link, reader, link.server, Towards.SERVER),
                self._carry(link, from_server, writer, Towards.CLIENT),
            )
        except OSError:
            # One end is gone, so the other goes too.
            link.break_off(is_reset=True)
        finally:
            self._links.discard(link)
            link.break_off(is_reset=False)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._server, Path):
            return await asyncio.open_unix_connection(str(self._server))
        return await asyncio.open_connection(*self._server)

    async def _carry(
        self, link: _Link, source: asyncio.StreamReader, target: asyncio.StreamWriter, way: Towards
    ) -> None:
        """Passes blocks on until the source's end, which is passed on too."""
        tail = b""
        while block := await source.read(BLOCK_BYTES):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._open[way].wait()
            if link not in self._links:
                return
            trap = self._traps.get(way)
            if self._is_trapped(tail, block, way):
                if trap is not None and trap.refuses:
                    await self._refuse()
                self._break(link, is_reset=True)
                return
            tail = (tail + block)[-LONGEST_MARK:]
            left = self._limits.get(way, 1 << 62) - link.passed_bytes[way]
            link.passed_bytes[way] += len(block)
            target.write(block[: max(left, 0)])
            await target.drain()
            if left <= len(block):
                self._break(link, is_reset=self._is_reset)
                return
        if target.can_write_eof() and not target.is_closing():
            target.write_eof()

    def _is_trapped(self, tail: bytes, block: bytes, way: Towards) -> bool:
        """A mark may lie across two blocks; one that ended in the last block was counted there."""
        trap = self._traps.get(way)
        if trap is None:
            return False
        across = tail[-len(trap.mark) + 1 :] if len(trap.mark) > 1 else b""
        trap.left -= (across + block).count(trap.mark)
        if trap.left > 0:
            return False
        del self._traps[way]
        return True
