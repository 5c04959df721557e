"""The seam between operations and the database: a transaction, a database, a listener, and how one is opened.

It knows neither tables nor drivers. SQL is one text for SQLite and PostgreSQL: parameters are `:name`, `for
update` is written where PostgreSQL needs it, sums are `cast(sum(x) as bigint)`, a parameter that may be
null and stands alone is `cast(:name as text)`. `transaction_number()` is that of the writing one, null
on SQLite, and `unsettled_number()` the lowest of those that have not ended: whatever has a lower one is
visible, and nothing with a lower one will follow. Constraints are never deferred, and an operation never
catches a database error: on PostgreSQL its transaction is lost by then.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeVar

from tenuto.errors import Unavailable

T = TypeVar("T")

# Booleans are the integers 0 and 1, JSON is text, times are integer milliseconds, money is integer micros.
Value = str | int | bytes | None


Dialect = Literal["sqlite", "postgresql"]


class ConstraintFailed(Exception):
    """A row breaks a unique, foreign key, not null or check constraint; the operation is undone."""


class Collided(Unavailable):
    """A write that other transactions undid each time it was tried; nothing of it was stored."""


class Row(Protocol):
    """One row of an answer, by column name.

    Text that is not UTF-8, as only damage makes it, has lone surrogates where its bytes were (PEP 383): one
    damaged row does not keep the others of its answer from being read. It cannot be encoded again.
    """

    def __getitem__(self, name: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


class Deferred(Protocol):
    """The answer to a statement of `ask`, had when it is looked at."""

    def one(self) -> Row | None:
        """The first row, or None."""

    def changed(self) -> int:
        """The number of rows that the statement changed."""


class Asking(Protocol):
    """What a look-up may do: ask, and read the answers later."""

    def ask(self, sql: str, /, **parameters: Value) -> Deferred:
        """Like a transaction's `one` or `run`, for who has more to say before looking: the next answer brings
        this one too.

        Its error may come from a later call or from the commit.
        """


class Transaction(Asking, Protocol):
    """What an operation may do to the database, until it returns."""

    def one(self, sql: str, /, **parameters: Value) -> Row | None:
        """The first row, or None. It is the caller's duty that there is no second."""

    def all(self, sql: str, /, **parameters: Value) -> list[Row]:
        """All rows. It is the caller's duty that they are few: write a limit."""

    def run(self, sql: str, /, **parameters: Value) -> int:
        """The number of rows that an insert, update or delete changed."""

    def do(self, sql: str, /, **parameters: Value) -> None:
        """Like `run`, for who does not need the number: on PostgreSQL it costs no round trip of its own.

        Its error may come from a later call or from the commit.
        """


class Listener(Protocol):
    """Learns that something happened on its topics: perhaps too often, perhaps a second late, but it does."""

    def arm(self, topic: str) -> None:
        """Ask for the topic's next wake-up; from any thread, before looking at what it would be about.

        Only a listener that was made for `once` has to.
        """

    def wait(self, timeout_s: float) -> frozenset[str]:
        """The topics that were woken, all of them when the database has changed; none after the timeout.

        One thread at a time.
        """

    def close(self) -> None: ...


class Database(Protocol):
    """Records that outlast every crash once `write` has returned."""

    @property
    def dialect(self) -> Dialect: ...

    def read(self, operation: Callable[[Transaction], T]) -> T:
        """Runs a short reading operation, from any thread; raises Unavailable when the database is away.

        Each statement sees what is committed when it starts, on both databases alike: what must be seen
        together is read by one statement.
        """

    def snapshot(self, operation: Callable[[Transaction], T]) -> T:
        """Runs a long reading operation that sees what was committed when it began, and nothing later.

        It has a connection of its own and no limit of time, it holds nobody up, and it can change nothing.
        """

    def write(self, operation: Callable[[Transaction], T]) -> T:
        """Runs an operation as one transaction, from any thread; it is durable when this returns.

        What the operation raises undoes it and reaches its caller alone. The operation may run more than once
        and must not touch anything but its transaction. Unavailable means that nothing is known to be stored:
        where the connection broke during COMMIT it may be, so callers repeat with the same idempotency key.
        """

    async def read_async(self, operation: Callable[[Transaction], T]) -> T:
        """`read` for the event loop."""

    async def look_up(self, ask: Callable[[Asking], Callable[[], T]]) -> T:
        """A few rows by their keys, for the event loop: `ask` asks, what it returns reads the answers.

        For what comes a thousand times a second: on PostgreSQL it costs no thread, and what many ask for
        travels together. Both functions may run more than once.
        """

    async def write_async(self, operation: Callable[[Transaction], T]) -> T:
        """`write` for the event loop. A cancelled caller's operation may still be carried out."""

    def wake(self, topic: str) -> None:
        """Tells the topic's listeners in all processes. Never blocks; many calls may become one."""

    def listen(self, *topics: str, once: bool = False) -> Listener:
        """`once`: a topic that has woken stays silent until `arm`, so that whoever has no use for wake-ups
        gets none, and they cost their senders next to nothing.
        """

    def check_location(self) -> None:
        """Raises Unavailable when the file is not the one that was opened: its folder was moved away."""

    def close(self) -> None:
        """Finishes what is running; what still waits gets Unavailable."""
