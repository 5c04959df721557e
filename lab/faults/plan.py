"""Plans the faults: from a seed and the fault's number only, so that each can be reproduced.

It knows the names of kinds and places, not how a fault is carried out.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tenuto import failpoints

Shape = Literal["sqlite", "postgresql", "s3"]
"""What a service runs on: a database and a folder of blobs; or PostgreSQL and an S3 store."""

KILL_WORKER, KILL_HOST, KILL_API = "worker killed", "engine's host killed", "API killed"
KILL_ALL, SIGTERM, STOP_WORKER = "everything killed", "SIGTERM and start", "worker stopped, then woken"
PLACE_KILL, PLACE_STOP = "killed at a failpoint", "stopped at a failpoint, then woken"
PLACE_ERROR, PLACE_DELAY = "I/O error at a failpoint", "delayed at a failpoint"
DISK_FULL, CUT_CLIENTS, CUT_ANSWER = "disk full for a while", "clients' links cut", "answer cut off"
KILL_DATABASE, HALT_DATABASE = "PostgreSQL killed", "PostgreSQL: immediate shutdown"
KILL_ALL_AND_DATABASE = "everything and PostgreSQL killed"
CUT_DATABASE, CUT_COMMIT = "database's links cut", "cut between COMMIT and its answer"
END_SESSIONS, LOCK_ROWS, LOCK_FILE = (
    "sessions terminated",
    "rows locked by another",
    "SQLite locked by another",
)
NO_ROOM, NO_DESCRIPTORS = "no file may grow for a while", "no descriptors for a while"
UNREADABLE_ROW, WRONG_PRICE = "a queued job's record damaged", "a queued job's price damaged"
DEAF_RUN = "a cancelled run that does not stop, beside others"
KILL_STORE, STALL_STORE, REFUSE_STORE = "store killed", "store stalled", "store refuses"
CUT_STORE, CUT_STORED = "store's links cut", "stored, and its answer lost"
KILL_ALL_AND_STORE = "everything and the store killed"
KILL_INBOX, REFUSE_INBOX = "webhooks' receiver killed", "webhooks' receiver refuses"
HANG_STORE, HANG_DATABASE, HANG_UPSTREAM, HANG_INBOX, HANG_HOST = (
    f"{what} while a process stops"
    for what in (
        *("store hangs", "database hangs", "paid call hangs", "webhooks' receiver hangs"),
        "engine's host hangs",
    )
)
"""Neither an answer nor a refusal, and whoever waits for one is to end in its time."""

_WEIGHTS: Mapping[str, int] = {
    KILL_WORKER: 16,
    KILL_HOST: 8,
    KILL_API: 6,
    KILL_ALL: 3,
    SIGTERM: 2,
    STOP_WORKER: 2,
    PLACE_KILL: 30,
    PLACE_STOP: 3,
    PLACE_ERROR: 14,
    PLACE_DELAY: 6,
    DISK_FULL: 2,
    NO_ROOM: 2,
    NO_DESCRIPTORS: 2,
    UNREADABLE_ROW: 1,
    WRONG_PRICE: 1,
    DEAF_RUN: 1,
    CUT_CLIENTS: 4,
    CUT_ANSWER: 4,
    KILL_INBOX: 3,
    REFUSE_INBOX: 3,
    HANG_UPSTREAM: 1,
    HANG_INBOX: 1,
    HANG_HOST: 2,
}
_OF_POSTGRESQL: Mapping[str, int] = {
    KILL_DATABASE: 2,
    HALT_DATABASE: 2,
    KILL_ALL_AND_DATABASE: 1,
    CUT_DATABASE: 4,
    CUT_COMMIT: 6,
    END_SESSIONS: 3,
    LOCK_ROWS: 3,
    HANG_DATABASE: 2,
}
_OF_STORE: Mapping[str, int] = {
    KILL_STORE: 9,
    STALL_STORE: 9,
    REFUSE_STORE: 9,
    CUT_STORE: 12,
    CUT_STORED: 24,
    KILL_ALL_AND_STORE: 2,
    HANG_STORE: 4,
}
_OF_SHAPE: Mapping[Shape, Mapping[str, int]] = {
    "sqlite": {LOCK_FILE: 4},
    "postgresql": _OF_POSTGRESQL,
    "s3": {**_OF_POSTGRESQL, **_OF_STORE},
}
"""How often a kind is drawn, against the others."""

SHAPES: tuple[Shape, ...] = tuple(_OF_SHAPE)

WORKER_KILLS = (KILL_WORKER, KILL_ALL, KILL_ALL_AND_DATABASE, KILL_ALL_AND_STORE)
DATABASE_KILLS = (KILL_DATABASE, HALT_DATABASE, KILL_ALL_AND_DATABASE)
STORE_KILLS = (KILL_STORE, KILL_ALL_AND_STORE)

SERVED = frozenset(failpoints.PLACES) - failpoints.OF_COMMANDS - {"install.after_bytes"}
"""Passed by a service that runs; the others by a first start, or by an operator's command."""

_OF_FOLDER = frozenset({"blob.before_fsync", "blob.before_rename", "blob.before_folder_fsync"})
"""Where blobs are files; an object is complete or missing."""

_OF_WORKERS = (
    *("register.", "claim.", "input.", "recording.", "fence.", "engine.", "segment.", "live_text."),
    *("chunk.", "result.", "record.", "succeed.", "ending.", "beat.", "rescue.", "sweep."),
)
OF_WORKERS = frozenset(place for place in failpoints.PLACES if place.startswith(_OF_WORKERS))
"""Failpoints that only a worker reaches."""

NO_STOP = frozenset({"blob.before_read", "download.after_head"})
"""A stop here would halt a thread that many wait for; a kill tests as much."""

ERRORS = ("ENOSPC", "EIO", "EROFS", "EDQUOT")
LONGEST_PAUSE_S = 0.35
HASTY = 0.25
"""How many faults do not wait until the service is ready again."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what, where, at which visit, for how long, and how long after the one before it."""

    number: int
    kind: str
    place: str | None
    error: str
    nth: int
    seconds: float
    pause_s: float
    dice: float
    """Which of several processes it is, from 0 up to 1."""
    is_hasty: bool
    """It comes while the service may still be recovering from the one before."""

    def __str__(self) -> str:
        at = "" if self.place is None else f" {self.place}, visit {self.nth}"
        return f"{self.number}: {self.kind}{at}"


def kinds(shape: Shape) -> Mapping[str, int]:
    """What may happen to such a service, and how often it is drawn."""
    return {**_WEIGHTS, **_OF_SHAPE[shape]}


def places(shape: Shape, *, hindered: bool = False) -> frozenset[str]:
    """The failpoints that it passes; those alone where the system itself may raise an error."""
    passed = SERVED & failpoints.HINDERED if hindered else SERVED
    return passed - _OF_FOLDER if shape == "s3" else passed


def draw(seed: int, number: int, shape: Shape) -> Fault:
    """The fault of this number."""
    dice = random.Random(f"{seed}/{shape}/{number}")
    weights = kinds(shape)
    [kind] = dice.choices(list(weights), list(weights.values()))
    return Fault(
        number=number,
        kind=kind,
        place=_place(dice, kind, shape),
        error=dice.choice(ERRORS),
        nth=dice.choice((1, 1, 1, 2, 3)),
        seconds=dice.uniform(0.1, 1.0),
        pause_s=dice.uniform(0.0, LONGEST_PAUSE_S),
        dice=dice.random(),
        is_hasty=dice.random() < HASTY,
    )


def _place(dice: random.Random, kind: str, shape: Shape) -> str | None:
    if kind in (PLACE_KILL, PLACE_DELAY):
        return dice.choice(sorted(places(shape)))
    if kind == PLACE_STOP:
        return dice.choice(sorted(places(shape) - NO_STOP))
    if kind == PLACE_ERROR:
        return dice.choice(sorted(places(shape, hindered=True)))
    return None
