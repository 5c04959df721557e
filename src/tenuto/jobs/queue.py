"""Taking work: a slot of the lane, the account whose turn it is, its oldest job, an attempt.

One transaction; what happens to the attempt afterwards is `lifecycle`.
"""

import json
import zlib
from dataclasses import dataclass
from typing import Any

from tenuto.db.database import Row, Transaction
from tenuto.ids import Ids
from tenuto.jobs import attempt_store, line_store, store

ACCOUNTS_IN_LINE = 16
"""So many accounts a claim looks at for one that no other worker serves at the same moment."""


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
    """Take one of the lane's first `slots` slots and the oldest job of the account whose turn it is."""
    offered = sorted(models)
    if not offered:
        return None
    number = attempt_store.free_slot(tx, lane, slots)
    if number is None:
        return None
    attempt_id = ids.new("attempt")
    account_id = _take_turn(tx, lane, offered, now_ms, draw=attempt_id)
    if account_id is None:
        return None
    job = line_store.oldest_queued(tx, lane, account_id, offered, now_ms)
    if job is None:
        return None
    started = attempt_store.start(tx, job["id"], attempt_id, now_ms)
    if started is None:
        return None
    attempt_store.add_attempt(
        tx,
        attempt_id,
        job_id=job["id"],
        number=started["attempts"],
        worker_id=worker_id,
        now_ms=now_ms,
    )
    taken = attempt_store.take_slot(tx, lane, number, job["id"], attempt_id)
    assert taken == 1, "the slot row was locked"
    store.add_event(tx, job["id"], started["event_sequence"], "running", now_ms=now_ms, attempt_id=attempt_id)
    return _claim_of(job, account_id, lane, attempt_id=attempt_id, number=started["attempts"])


def _take_turn(tx: Transaction, lane: str, offered: list[str], now_ms: int, *, draw: str) -> str | None:
    """The account to serve: the first in line that no other worker serves at this moment, else the first."""
    line = line_store.next_accounts(tx, lane, offered, now_ms, ACCOUNTS_IN_LINE)
    line.sort(key=lambda account: _place(account, draw))
    for account in line:
        if account["served"] is None:
            attempt_store.add_turn(tx, lane, account["account_id"])
        if attempt_store.serve_turn(tx, lane, account["account_id"], seen=account["served"] or 0):
            return str(account["account_id"])
    if not line:
        return None
    attempt_store.serve_turn_again(tx, lane, line[0]["account_id"])
    return str(line[0]["account_id"])


def _place(account: Row, draw: str) -> tuple[int, int]:
    """Its place in line. Workers that claim at one moment give accounts the same number: among these the
    order is drawn anew for each claim, or the account with the lowest id would have the most turns."""
    served = account["served"] or 0
    return served, zlib.crc32(f"{draw}{account['account_id']}".encode()) if served else 0


def _claim_of(job: Row, account_id: str, lane: str, *, attempt_id: str, number: int) -> Claim:
    return Claim(
        job_id=job["id"],
        attempt_id=attempt_id,
        number=number,
        account_id=account_id,
        kind=job["kind"],
        model=job["model"],
        lane=lane,
        parameters=json.loads(job["parameters"]),
        input_artifact_ids=json.loads(job["input_artifact_ids"]),
        rerunnable=bool(job["rerunnable"]),
        deadline_at=job["deadline_at"],
    )
