"""The interface between operations and the database: a transaction, a database, a listener.

It knows neither tables nor drivers. SQL is one text for SQLite and PostgreSQL: parameters are `:name`, `for
update` is written where PostgreSQL needs it, sums are `cast(sum(x) as bigint)`, a parameter that may be
null and stands alone is `cast(:name as text)`. `transaction_number()` is that of the writing transaction,
null on SQLite, `unsettled_number()` the lowest of those that have not ended: everything with a lower one is
visible, and nothing with a lower one will follow. Constraints are never deferred, and an operation never
catches a database error: on PostgreSQL its transaction is lost by then.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from tenuto.errors import Unavailable

if TYPE_CHECKING:
    from tenuto.db.servers import Servers

T = TypeVar("T")

# Booleans are the integers 0 and 1, JSON is text, times are integer milliseconds, money is integer micros.
Value = str | int | bytes | None


Dialect = Literal["sqlite", "postgresql"]


class ConstraintFailed(Exception):
    """A row violates a unique, foreign key, not null or check constraint; the operation is rolled back."""


class Collided(Unavailable):
    """A write that other transactions undid each time it was tried; nothing of it was stored."""


class Row(Protocol):
    """One row of a result, by column name.

    Text that is not UTF-8, which only damage causes, has lone surrogates in place of its bytes (PEP 383), so
    one damaged row does not make the others of a result unreadable. It cannot be encoded again.
    """

    def __getitem__(self, name: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


class Deferred(Protocol):
    """The result of a statement sent with `ask`, fetched when it is first read."""

    def one(self) -> Row | None:
        """The first row, or None."""

    def changed(self) -> int:
        """The number of rows that the statement changed."""


class Asking(Protocol):
    """What a look-up may do: send statements, and read the results later."""

    def ask(self, sql: str, /, **parameters: Value) -> Deferred:
        """Like a transaction's `one` or `run`, for callers that send more statements before they read: the
        next result brings this one too.

        Its error may be raised by a later call or by the commit.
        """


class Transaction(Asking, Protocol):
    """What an operation may do to the database, until it returns."""

    def one(self, sql: str, /, **parameters: Value) -> Row | None:
        """The first row, or None. The caller makes sure that there is no second."""

    def all(self, sql: str, /, **parameters: Value) -> list[Row]:
        """All rows. The caller makes sure that they are few: write a limit."""

    def run(self, sql: str, /, **parameters: Value) -> int:
        """The number of rows that an insert, update or delete changed."""

    def do(self, sql: str, /, **parameters: Value) -> None:
        """Like `run`, if the number is not needed: on PostgreSQL it costs no round trip of its own.

        Its error may be raised by a later call or by the commit.
        """


class Listener(Protocol):
    """Waits for something to happen on its topics; may wake too often or too late, so callers also poll."""

    def arm(self, topic: str) -> None:
        """Ask for the topic's next wake-up; from any thread, before looking at what it would be about.

        Needed only with `once`.
        """

    def wait(self, timeout_s: float) -> frozenset[str]:
        """The topics that were woken, or all if any may have been missed; none after the timeout.

        One thread at a time.
        """

    def close(self) -> None: ...


class Database(Protocol):
    """Records that outlast every crash once `write` has returned."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def servers(self) -> "Servers | None":
        """The servers of which one holds the newest copy of the records; None for a file."""

    def read(self, operation: Callable[[Transaction], T]) -> T:
        """Runs a short reading operation, from any thread; raises Unavailable when the database is away.

        Each statement sees what is committed when it starts, on both databases alike: what must be seen
        together is read by one statement.
        """

    def snapshot(self, operation: Callable[[Transaction], T]) -> T:
        """Runs a long reading operation that sees what was committed when it began, and nothing later.

        It has a connection of its own and no overall time limit, blocks nobody, and can change nothing.
        """

    def write(self, operation: Callable[[Transaction], T]) -> T:
        """Runs an operation as one transaction, from any thread; it is durable when this returns.

        An exception rolls the operation back and reaches its caller alone. It may run more than once and must
        not touch anything but its transaction. Unavailable means that nothing is known to be stored: if the
        connection broke during COMMIT it may be, so callers repeat with the same idempotency key.
        """

    def write_long(self, operation: Callable[[Transaction], T]) -> T:
        """`write` without a time limit, for a migration or a restore. It is not repeated: Collided is raised
        at once, and a lost connection is Unavailable.
        """

    async def read_async(self, operation: Callable[[Transaction], T]) -> T:
        """`read` for the event loop."""

    async def look_up(self, ask: Callable[[Asking], Callable[[], T]]) -> T:
        """A few rows by key, for the event loop: `ask` sends statements, what it returns reads the results.

        For calls that come a thousand times a second: on PostgreSQL they need no thread and share round
        trips. Both functions may run more than once.
        """

    async def write_async(self, operation: Callable[[Transaction], T], *, account_id: str = "") -> T:
        """`write` for the event loop. A cancelled caller's operation may still be carried out.

        `account_id`: the account whose rows it changes. On PostgreSQL, a process may run writes of different
        accounts at the same time; those of one account run in sequence, so they do not wait for its locks,
        unless a whole group waits already: further ones run beside it.
        """

    def wake(self, topic: str) -> None:
        """Wakes the topic's listeners in all processes. Never blocks; many calls may become one."""

    def listen(self, *topics: str, once: bool = False) -> Listener:
        """`once`: a topic that was woken stays silent until `arm`, so that a listener without use for them
        gets no wake-ups, and they cost their senders next to nothing.
        """

    def check_location(self) -> None:
        """Raises Unavailable when the file is not the one that was opened: its folder was moved away."""

    def close(self) -> None:
        """Finishes what is running; what still waits gets Unavailable."""
