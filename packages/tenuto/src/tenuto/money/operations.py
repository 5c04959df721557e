"""Operations on money: credit, hold, settle, void, adjust. Each appends one entry.

A hold comes before the state `queued`, its resolution in the transaction that ends the job; the database
allows one of each per job. Calls of priced models are held and resolved in the same way. An amount of 0
writes its entry and locks no account row.
"""

from msgspec import Struct
from msgspec.structs import replace

from tenuto.db.database import Deferred, Transaction
from tenuto.errors import IdempotencyConflict, InsufficientBalance, OperatorError
from tenuto.ids import Ids
from tenuto.money import ledger_sql
from tenuto.money.ledger_sql import Entry, HoldRow
from tenuto.money.rules import MAX_CNY, MAX_MICROS, cny, short_cny


def credit(
    tx: Transaction, entry_id: str, *, account_id: str, amount_micros: int, note: str | None, now_ms: int
) -> None:
    """Add credit for the operator, or take back some of what is available (a negative amount).

    Applied once per `entry_id`: repeating it changes nothing, so it may be retried after a lost response.
    IdempotencyConflict if the id belongs to another entry.

    An account has at most MAX_CNY, available and held together: its sums always fit the columns' 64
    bits, and programs that use doubles read every balance exactly.
    """
    if amount_micros == 0:
        raise OperatorError("a credit of 0 changes nothing; give an amount such as 10 or -2.5")
    entry = Entry(
        entry_id,
        "credit" if amount_micros > 0 else "adjust",
        account_id,
        None,
        available_micros=amount_micros,
        funding_micros=-amount_micros,
        note=note,
    )
    ledger_sql.lock(tx, account_id)
    if _is_booked(tx, entry):
        return
    if amount_micros > 0:
        if ledger_sql.add(tx, account_id, available_micros=amount_micros, most_micros=MAX_MICROS) == 0:
            raise OperatorError(
                f"an account has at most {MAX_CNY} CNY, available and held together; give less"
            )
    elif ledger_sql.move(tx, account_id, available_micros=amount_micros, held_micros=0) == 0:
        raise OperatorError(
            "the account has less than that available; holds of open jobs cannot be taken back"
        )
    ledger_sql.append(tx, entry, now_ms)


class PendingHold(Struct, frozen=True):
    """A hold whose entry is written; `check` verifies that the balance covers it."""

    tx: Transaction
    entry: Entry
    moved: Deferred | None
    """None: nothing is held."""

    def check(self) -> None:
        """Raises InsufficientBalance, which undoes everything that the transaction wrote."""
        if self.moved is not None and not self.moved.changed():
            what = "job" if self.entry.call_id is None else "request"
            raise _refusal(self.tx, self.entry.account_id, self.entry.held_micros, what)


def hold(
    tx: Transaction,
    ids: Ids,
    *,
    account_id: str,
    job_id: str | None = None,
    call_id: str | None = None,
    amount_micros: int,
    now_ms: int,
) -> PendingHold:
    """Pre-authorise a job or a call. Its entry is written whether or not the balance covers it: call `check`
    on the result before the transaction ends; more statements may be sent before that.
    """
    moved = None
    if amount_micros:
        moved = ledger_sql.ask_move(
            tx, account_id, available_micros=-amount_micros, held_micros=amount_micros
        )
    entry = Entry(
        ids.new("entry"),
        "hold",
        account_id,
        job_id,
        available_micros=-amount_micros,
        held_micros=amount_micros,
        call_id=call_id,
    )
    ledger_sql.append(tx, entry, now_ms)
    return PendingHold(tx, entry, moved)


def refuse_uncovered(tx: Transaction, account_id: str, amount_micros: int, what: str) -> None:
    """InsufficientBalance if a hold of this amount would be refused now; holds nothing.

    For `what`, a job or a request, that needs work before it can be held for.
    """
    sums = ledger_sql.balance(tx, account_id)
    if amount_micros and (sums is None or sums.available_micros < amount_micros):
        raise _refusal(tx, account_id, amount_micros, what)


def lock(tx: Transaction, account_id: str) -> None:
    """Lock the account against other writers until the transaction ends."""
    ledger_sql.lock(tx, account_id)


def settle(
    tx: Transaction,
    ids: Ids,
    *,
    job_id: str,
    charge_micros: int,
    now_ms: int,
    note: str | None = None,
    entry_id: str | None = None,
) -> None:
    """Charge a succeeded job and return the rest of its hold. If an operator decided this, `note` names
    them, and `entry_id` is the id of the decision.
    """
    hold = _hold_of(tx, job_id)
    entry = Entry(entry_id or ids.new("entry"), "settle", hold.account_id, job_id, note=note)
    resolve(tx, hold, entry, charge_micros=charge_micros, now_ms=now_ms)


def void(
    tx: Transaction,
    ids: Ids,
    *,
    job_id: str,
    now_ms: int,
    note: str | None = None,
    entry_id: str | None = None,
) -> None:
    """Release the whole hold of a job that failed or was cancelled."""
    hold = _hold_of(tx, job_id)
    entry = Entry(entry_id or ids.new("entry"), "void", hold.account_id, job_id, note=note)
    resolve(tx, hold, entry, charge_micros=0, now_ms=now_ms)


def resolve(tx: Transaction, hold: HoldRow, entry: Entry, *, charge_micros: int, now_ms: int) -> None:
    """End a hold: charge this much of it, return the rest, and append the entry with both."""
    assert 0 <= charge_micros <= hold.held_micros, "a charge never exceeds its hold"
    rest_micros = hold.held_micros - charge_micros
    if hold.held_micros:
        moved = ledger_sql.move(
            tx, hold.account_id, available_micros=rest_micros, held_micros=-hold.held_micros
        )
        assert moved == 1, "the account holds what its open jobs and calls hold"
    whole = replace(
        entry,
        available_micros=rest_micros,
        held_micros=-hold.held_micros,
        revenue_micros=charge_micros,
    )
    ledger_sql.append(tx, whole, now_ms)


def remark(tx: Transaction, entry_id: str, *, account_id: str, job_id: str, note: str, now_ms: int) -> None:
    """Append an entry that moves nothing: an operator's decision that leaves the job's money held."""
    ledger_sql.append(tx, Entry(entry_id, "adjust", account_id, job_id, note=note), now_ms)


def is_decided(tx: Transaction, entry_id: str, *, type_: str, job_id: str, note: str) -> bool:
    """Whether an operator's decision has written its entry. IdempotencyConflict if another has its id."""
    line = ledger_sql.entry(tx, entry_id)
    if line is None:
        return False
    if (line.type, line.job_id, line.note) != (type_, job_id, note):
        raise _other_line(entry_id)
    return True


def _is_booked(tx: Transaction, entry: Entry) -> bool:
    """Whether this same entry was written before. IdempotencyConflict if another has its id."""
    line = ledger_sql.entry(tx, entry.entry_id)
    if line is None:
        return False
    written = (line.type, line.account_id, line.job_id, line.available_micros, line.note)
    if written != (entry.type, entry.account_id, entry.job_id, entry.available_micros, entry.note):
        raise _other_line(entry.entry_id)
    return True


def _other_line(entry_id: str) -> IdempotencyConflict:
    return IdempotencyConflict(f"{entry_id} is another line of the ledger; leave the id out for a new one")


def _refusal(tx: Transaction, account_id: str, needed_micros: int, what: str) -> InsufficientBalance:
    sums = ledger_sql.balance(tx, account_id)
    assert sums is not None, "whoever asks has an account"
    return InsufficientBalance(
        f"This {what} needs {short_cny(needed_micros)} CNY, and the account has"
        f" {short_cny(sums.available_micros)} CNY available; the operator of the service can add credit.",
        needed=cny(needed_micros),
        available=cny(sums.available_micros),
    )


def _hold_of(tx: Transaction, job_id: str) -> HoldRow:
    hold = ledger_sql.hold_of_job(tx, job_id)
    assert hold is not None, "every accepted job has a hold, of 0 too"
    return hold
