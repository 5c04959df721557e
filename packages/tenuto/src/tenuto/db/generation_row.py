"""The row that tells a copy of the database from others with the same timeline."""

import secrets

from msgspec.structs import replace

from tenuto.db.database import Transaction
from tenuto.db.database_copy import Copy

STEPS = 1 << 20
"""An epoch rises by a random number: copies that are raised without knowing of each other then differ."""


def process(tx: Transaction) -> str:
    """The server's own process, as `Servers` tells it."""
    row = tx.one("select pg_postmaster_start_time()::text as process")
    assert row is not None, "a select without a table gives a row"
    return str(row["process"])


def now(tx: Transaction, compared: Copy) -> Copy:
    """This transaction's own copy, which was compared when its connection began."""
    row = tx.one("select acceptance, epoch from generation where number = 1")
    return compared if row is None else replace(compared, acceptance=row["acceptance"], epoch=row["epoch"])


def begin(tx: Transaction, own: Copy, newest: Copy) -> Copy:
    """Raise the epoch of this transaction's own copy above every known one; it is not behind the newest."""
    return _raise(tx, replace(own, epoch=max(own.epoch, newest.epoch)), 0)


def accept(tx: Transaction, seen: Copy, newest: Copy | None) -> Copy:
    """Make this copy, whatever it is, the newest one."""
    known = seen if newest is None else newest
    acceptance, epoch = max(seen.acceptance, known.acceptance), max(seen.epoch, known.epoch)
    return _raise(tx, Copy(seen.system, acceptance, seen.timeline, epoch), 1)


def _raise(tx: Transaction, copy: Copy, acceptances: int) -> Copy:
    step = 1 + secrets.randbelow(STEPS)
    row = tx.one(
        """insert into generation (number, acceptance, epoch) values (1, :acceptance, :epoch)
           on conflict (number) do update set
               acceptance = greatest(generation.acceptance, excluded.acceptance),
               epoch = greatest(generation.epoch + :step, excluded.epoch)
           returning acceptance, epoch""",
        acceptance=copy.acceptance + acceptances,
        epoch=copy.epoch + step,
        step=step,
    )
    assert row is not None, "an upsert gives its row"
    return Copy(copy.system, row["acceptance"], copy.timeline, row["epoch"])
