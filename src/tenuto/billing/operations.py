"""What happens to money: credit, hold, settle, void, adjust. Each appends one entry.

A hold comes before `queued`, a resolution in the transaction that ends the job; the database allows
one of each per job. An amount of 0 writes its entry and locks no account row.
"""

from tenuto.billing import store
from tenuto.billing.rules import MAX_CNY, MICROS_PER_CNY
from tenuto.billing.store import Entry
from tenuto.db.database import Transaction
from tenuto.errors import InsufficientBalance, OperatorError
from tenuto.ids import Ids


def credit(
    tx: Transaction, ids: Ids, *, account_id: str, amount_micros: int, note: str | None, now_ms: int
) -> None:
    """The operator adds credit, or takes some of what is available back (a negative amount).

    An account has at most MAX_CNY, available and held together: its sums never leave the columns' 64
    bits, and programs that count in doubles read every balance exactly.
    """
    if amount_micros == 0:
        raise OperatorError("a credit of 0 changes nothing; give an amount such as 10 or -2.5")
    if amount_micros > 0:
        most_micros = MAX_CNY * MICROS_PER_CNY
        if store.add(tx, account_id, available_micros=amount_micros, most_micros=most_micros) == 0:
            raise OperatorError(
                f"an account has at most {MAX_CNY} CNY, available and held together; give less"
            )
    elif store.move(tx, account_id, available_micros=amount_micros, held_micros=0) == 0:
        raise OperatorError(
            "the account has less than that available; holds of open jobs cannot be taken back"
        )
    entry = Entry(
        ids.new("entry"),
        "credit" if amount_micros > 0 else "adjust",
        account_id,
        None,
        available_micros=amount_micros,
        funding_micros=-amount_micros,
        note=note,
    )
    store.append(tx, entry, now_ms)


def hold(tx: Transaction, ids: Ids, *, account_id: str, job_id: str, amount_micros: int, now_ms: int) -> None:
    """Pre-authorise a job. Raises InsufficientBalance when `available` does not cover it."""
    if (
        amount_micros
        and store.move(tx, account_id, available_micros=-amount_micros, held_micros=amount_micros) == 0
    ):
        raise InsufficientBalance
    entry = Entry(
        ids.new("entry"),
        "hold",
        account_id,
        job_id,
        available_micros=-amount_micros,
        held_micros=amount_micros,
    )
    store.append(tx, entry, now_ms)


def settle(
    tx: Transaction, ids: Ids, *, job_id: str, charge_micros: int, now_ms: int, note: str | None = None
) -> None:
    """Charge a succeeded job and give the rest of its hold back; a note says who decided it, if somebody."""
    account_id, held_micros = _hold_of(tx, job_id)
    assert 0 <= charge_micros <= held_micros, "a charge never exceeds its hold"
    rest_micros = held_micros - charge_micros
    if held_micros:
        moved = store.move(tx, account_id, available_micros=rest_micros, held_micros=-held_micros)
        assert moved == 1, "the account holds what its open jobs hold"
    entry = Entry(
        ids.new("entry"),
        "settle",
        account_id,
        job_id,
        available_micros=rest_micros,
        held_micros=-held_micros,
        revenue_micros=charge_micros,
        note=note,
    )
    store.append(tx, entry, now_ms)


def void(tx: Transaction, ids: Ids, *, job_id: str, now_ms: int, note: str | None = None) -> None:
    """Release the whole hold of a job that failed or was cancelled."""
    account_id, held_micros = _hold_of(tx, job_id)
    if held_micros:
        moved = store.move(tx, account_id, available_micros=held_micros, held_micros=-held_micros)
        assert moved == 1, "the account holds what its open jobs hold"
    entry = Entry(
        ids.new("entry"),
        "void",
        account_id,
        job_id,
        available_micros=held_micros,
        held_micros=-held_micros,
        note=note,
    )
    store.append(tx, entry, now_ms)


def remark(tx: Transaction, ids: Ids, *, account_id: str, job_id: str, note: str, now_ms: int) -> None:
    """A line that moves nothing: an operator decided something about the job's money that leaves it held."""
    store.append(tx, Entry(ids.new("entry"), "adjust", account_id, job_id, note=note), now_ms)


def _hold_of(tx: Transaction, job_id: str) -> tuple[str, int]:
    row = store.hold_of_job(tx, job_id)
    assert row is not None, "every accepted job has a hold, of 0 too"
    return row["account_id"], row["held_micros"]
