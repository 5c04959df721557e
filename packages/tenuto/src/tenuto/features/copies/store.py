"""The row that tells a copy of the database from others with the same timeline."""

from tenuto.db.database import Transaction
from tenuto.db.generation import Copy


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
