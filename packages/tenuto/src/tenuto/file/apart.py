"""A call that may hang, made in a thread of its own. Knows nothing of what is called."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Apart(Generic[T]):
    """A call in a thread of its own: if it hangs, as one in the kernel may, nobody has to wait for it."""

    def __init__(self, work: Callable[[], T], on_end: Callable[[], None] = lambda: None) -> None:
        """`on_end` is called when it has ended, from its thread."""
        self._work, self._on_end = work, on_end
        self._result: T | None = None
        self._error: BaseException | None = None
        self.ended = threading.Event()
        try:
            threading.Thread(target=self._run, name="apart", daemon=True).start()
        except RuntimeError:  # The machine has no thread left: whoever calls does it.
            self._run()

    def result(self) -> T:
        """What it returned, or raised; only once it has ended."""
        if self._error is not None:
            raise self._error
        return cast(T, self._result)

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        self.ended.set()
        self._on_end()
