"""Taking work: a slot of the lane, the account whose turn it is, its oldest job, an attempt.

One transaction; what happens to the attempt afterwards is `lifecycle`. A job whose row cannot be read is
handed to the operator here, and the next one is taken: it costs nobody else anything.
"""

import json
import zlib
from dataclasses import dataclass
from typing import Any

from tenuto.catalog.kinds import kinds
from tenuto.db.database import Transaction
from tenuto.db.records import DeferredRecord
from tenuto.errors import causes
from tenuto.ids import Ids
from tenuto.jobs import attempt_store, lifecycle, queue_store, store
from tenuto.jobs.rows import JobWork, Started, WaitingAccount
from tenuto.jobs.states import MAX_LOSSES_SHARED

ACCOUNTS_LOOKED_AT = 16
"""So many accounts a claim looks at for one that no other worker serves at the same moment."""

UNREADABLE_AT_ONCE = 20
"""Jobs that cannot be read: one claim hands so many to the operator at most, the next one continues."""


class Unreadable(Exception):
    """The job's row does not say what is to be done. The message names the column, not what is in it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker needs to run one attempt of a job."""

    job_id: str
    attempt_id: str
    number: int
    account_id: str
    kind: str
    model: str
    lane: str
    parameters: dict[str, Any]
    input_artifact_ids: list[str]
    rerunnable: bool
    deadline_at: int
    is_suspect: bool = False
    """Its process was lost with other runs in it too often: it runs alone, so that a loss shows its fault."""


def claim(
    tx: Transaction,
    ids: Ids,
    *,
    worker_id: str,
    lane: str,
    slots: int,
    models: frozenset[str],
    now_ms: int,
) -> Claim | None:
    """Take one of the lane's first `slots` slots and the oldest job of the account whose turn it is.

    Jobs that cannot be read are in `recovery_required` afterwards, also when None is returned.
    """
    offered = sorted(models)
    if not offered:
        return None
    number = attempt_store.free_slot(tx, lane, slots)
    if number is None:
        return None
    for _ in range(UNREADABLE_AT_ONCE):
        attempt_id = ids.new("attempt")
        account_id = _take_turn(tx, lane, offered, now_ms, draw=attempt_id)
        job_id = account_id and queue_store.oldest_queued(tx, lane, account_id, offered, now_ms)
        if not account_id or not job_id:
            return None
        started = attempt_store.start(tx, job_id, attempt_id, now_ms)
        work = attempt_store.work(tx, job_id)
        attempts = _begin(tx, job_id, attempt_id, started.one(), worker_id=worker_id, now_ms=now_ms)
        if attempts is None:
            return None
        try:
            claimed = _claim_of(work, job_id, account_id, lane, attempt_id=attempt_id, number=attempts)
        except Unreadable as error:
            _hand_over(tx, attempt_id, error, now_ms)
            continue
        taken = attempt_store.take_slot(tx, lane, number, job_id, attempt_id)
        assert taken == 1, "the slot row was locked"
        return claimed
    return None


def _hand_over(tx: Transaction, attempt_id: str, error: Unreadable, now_ms: int) -> None:
    lifecycle.hand_over(
        tx, attempt_id, code="unreadable", message=str(error), evidence=causes(error), now_ms=now_ms
    )


def _begin(
    tx: Transaction, job_id: str, attempt_id: str, started: Started | None, *, worker_id: str, now_ms: int
) -> int | None:
    """The attempt's number, its row and its event written; None when another was first."""
    if started is None:
        return None
    number = started.attempts
    attempt_store.add_attempt(
        tx, attempt_id, job_id=job_id, number=number, worker_id=worker_id, now_ms=now_ms
    )
    store.add_event(tx, job_id, started.event_sequence, "running", now_ms=now_ms, attempt_id=attempt_id)
    return number


def _take_turn(tx: Transaction, lane: str, offered: list[str], now_ms: int, *, draw: str) -> str | None:
    """The account to serve: the first that no other worker serves at this moment, else the first."""
    accounts = queue_store.next_accounts(tx, lane, offered, now_ms, ACCOUNTS_LOOKED_AT)
    accounts.sort(key=lambda account: _turn(account, draw))
    for account in accounts:
        if account.served is None:
            attempt_store.add_turn(tx, lane, account.account_id)
        if attempt_store.serve_turn(tx, lane, account.account_id, seen=account.served or 0):
            return account.account_id
    if not accounts:
        return None
    attempt_store.serve_turn_again(tx, lane, accounts[0].account_id)
    return accounts[0].account_id


def _turn(account: WaitingAccount, draw: str) -> tuple[int, int]:
    """When its turn is. Workers that claim at one moment give accounts the same number: among these the
    order is drawn for each claim, or the account with the lowest id would have the most turns."""
    served = account.served or 0
    return served, zlib.crc32(f"{draw}{account.account_id}".encode()) if served else 0


def _claim_of(
    work: DeferredRecord[JobWork], job_id: str, account_id: str, lane: str, *, attempt_id: str, number: int
) -> Claim:
    """What the row says, every value of the type that it must have. Raises Unreadable."""
    row = work.one()
    assert row is not None, "the row was found in this transaction"
    if row.kind not in kinds():
        raise Unreadable("the job's record cannot be read: its kind does not exist")
    numbers = (row.deadline_at, row.rerunnable, row.losses_shared)
    if any(type(number) is not int for number in numbers):
        raise Unreadable("the job's record cannot be read: a number in it is not one")
    return Claim(
        job_id=job_id,
        attempt_id=attempt_id,
        number=number,
        account_id=account_id,
        kind=row.kind,
        model=row.model,
        lane=lane,
        parameters=_parsed(row.parameters, "parameters", dict),
        input_artifact_ids=_parsed(row.input_artifact_ids, "input_artifact_ids", list),
        rerunnable=bool(row.rerunnable),
        deadline_at=row.deadline_at,
        is_suspect=row.losses_shared >= MAX_LOSSES_SHARED,
    )


def _parsed(text: str, name: str, kind: type[dict[str, Any]] | type[list[str]]) -> Any:
    try:
        value = json.loads(text)
        text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Unreadable(f"the job's record cannot be read: its {name} are not JSON") from error
    if type(value) is not kind:
        raise Unreadable(f"the job's record cannot be read: its {name} are not a JSON {kind.__name__}")
    return value
