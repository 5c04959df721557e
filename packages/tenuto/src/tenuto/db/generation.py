"""Which copy of the database is in use: that with the highest generation. Knows no connections.

After a failover, an old primary that comes back takes writes like the new one, and has the same tables.
"""

from msgspec import Struct

from tenuto.db.database import Transaction


class Outdated(Exception):
    """A server holds a copy of the database that is not the one in use; nothing was written to it."""


class Copy(Struct, frozen=True):
    """What tells a copy of the database from the others. The store of bytes records that of the newest."""

    system: str
    """The server's system identifier, which a primary shares with its standbys; empty if it tells none."""
    acceptance: int
    """How often an operator has accepted another copy: a restored one, for example."""
    timeline: int
    """Raised by PostgreSQL with each promotion."""
    epoch: int
    """Raised by each start of a process: of two copies with one timeline, that in use has the higher one."""

    @property
    def generation(self) -> tuple[int, int, int]:
        return self.acceptance, self.timeline, self.epoch

    def fault(self, newest: "Copy") -> str | None:
        """Why it must not be used while `newest` is the newest copy that is known; None: it may."""
        if self.generation < newest.generation:
            return (
                f"{self._place()}, and {newest._place()} is in use: it is an old primary, or a restored copy"
            )
        is_other = self.system and newest.system and self.system != newest.system
        if is_other and self.acceptance == newest.acceptance:
            return f"the system identifier {self.system}, and {newest.system} is in use"
        return None

    def _place(self) -> str:
        accepted = f"acceptance {self.acceptance}, " if self.acceptance else ""
        return f"{accepted}timeline {self.timeline}, epoch {self.epoch}"


def begin(tx: Transaction, newest: Copy) -> Copy:
    """Raise the epoch of this copy, which was compared with the newest, above every known one."""
    return _raise(tx, newest, 0)


def accept(tx: Transaction, seen: Copy, newest: Copy | None) -> Copy:
    """Make this copy, whatever it is, the newest one."""
    known = seen if newest is None else newest
    acceptance, epoch = max(seen.acceptance, known.acceptance), max(seen.epoch, known.epoch)
    return _raise(tx, Copy(seen.system, acceptance, seen.timeline, epoch), 1)


def _raise(tx: Transaction, copy: Copy, acceptances: int) -> Copy:
    row = tx.one(
        """insert into generation (number, acceptance, epoch) values (1, :acceptance, :epoch)
           on conflict (number) do update set
               acceptance = greatest(generation.acceptance, excluded.acceptance),
               epoch = greatest(generation.epoch + 1, excluded.epoch)
           returning acceptance, epoch""",
        acceptance=copy.acceptance + acceptances,
        epoch=copy.epoch + 1,
    )
    assert row is not None, "an upsert gives its row"
    return Copy(copy.system, row["acceptance"], copy.timeline, row["epoch"])
