"""Paid results that wait in the database until the store of bytes takes them.

A worker that must end leaves one there, and its attempt open; whoever rescues the attempt stores the result.
"""

import base64
import hashlib
import json
from typing import Any

from msgspec import Struct

from tenuto.db.database import Transaction
from tenuto.features.kept_results import store
from tenuto.job import finish

MAX_BYTES = 32 << 20
"""Speech of eleven minutes; a longer result is kept in a file."""
PIECE_BYTES = 3 << 16
"""256 KiB as Base64: a backup reads many rows at once."""


class KeptResult(Struct, frozen=True):
    """What an engine made, before its bytes are durable in the store."""

    content: bytes
    media_type: str
    metadata: dict[str, Any]
    duration_ms: int | None


def keep(tx: Transaction, attempt_id: str, result: KeptResult, *, now_ms: int) -> None:
    """Write the result down; repeatable. Stale: the attempt is no longer the job's, or has a result."""
    job_id = finish.unrecorded(tx, attempt_id).job_id
    description = {name: getattr(result, name) for name in ("media_type", "metadata", "duration_ms")}
    description["sha256"] = hashlib.sha256(result.content).hexdigest()
    pieces = (result.content[at : at + PIECE_BYTES] for at in range(0, len(result.content), PIECE_BYTES))
    lines = [json.dumps(description), *(base64.b64encode(piece).decode("ascii") for piece in pieces)]
    store.keep(tx, lines, job_id=job_id, attempt_id=attempt_id, now_ms=now_ms)


def find(tx: Transaction, attempt_id: str) -> KeptResult | None:
    """The result that the attempt has kept, if any. ValueError, TypeError, KeyError: its rows are damaged."""
    lines = store.kept(tx, attempt_id)
    if not lines:
        return None
    content, description = b"".join(map(base64.b64decode, lines[1:])), json.loads(lines[0])
    if description.pop("sha256") != hashlib.sha256(content).hexdigest():
        raise ValueError("the kept result is not whole")
    return KeptResult(content=content, **description)
