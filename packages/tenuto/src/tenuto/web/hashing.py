"""Passwords are hashed in two threads, beside the event loop; who comes when many wait is told to come again.

So neither processor nor memory (64 MiB a hash) can be taken by people who send passwords.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tenuto.accounts import passwords
from tenuto.errors import Unavailable

T = TypeVar("T")

THREADS = 2
MAX_WAITING = 32


class Hashing:
    """Used by the event loop alone."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="password")
        self._under_way = 0

    async def hash(self, password: str) -> str:
        """What is kept of a password. Unavailable when too many wait."""
        return await self._do(lambda: passwords.hash_password(password))

    async def is_right(self, password_hash: str | None, password: str) -> bool:
        """Whether this is the password; without a hash it is not, and that takes as long to say."""
        known = password_hash or passwords.nobodys_hash()
        return await self._do(lambda: passwords.is_right(known, password))

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _do(self, work: Callable[[], T]) -> T:
        if self._under_way >= THREADS + MAX_WAITING:
            raise Unavailable("Too many people are signing in just now; try again.", limit="hashing")
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1
