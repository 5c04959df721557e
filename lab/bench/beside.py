"""Samples something repeatedly, in its own thread, while something else is measured."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(look: Callable[[], None], every_s: float) -> Iterator[None]:
    """Calls `look` with this pause between the calls until the block ends; the last call is waited for."""
    ending = threading.Event()

    def go() -> None:
        while not ending.wait(every_s):
            look()

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
