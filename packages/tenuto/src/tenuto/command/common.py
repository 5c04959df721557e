"""What commands share at run time: opening the records, writing exactly once, printing tables and lines.

The service is imported inside functions: all commands import this module, and `-h` must be quick.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto.command.options import ServiceLocation
from tenuto.errors import CommitUnknown, OperatorError
from tenuto.process.runtime import arm_failpoints, clock
from tenuto_client.commands import streams
from tenuto_client.commands.console import aligned
from tenuto_client.commands.words import t, translated

if TYPE_CHECKING:
    from tenuto.config import Settings
    from tenuto.db.database import Database, Transaction
    from tenuto.file.blob import BlobStore
    from tenuto.ids import Ids

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long a command waits for a database whose connection was lost during a write."""
SAME_AGAIN = "run the same command again; it takes effect only once"


@contextmanager
def records(location: ServiceLocation, *, creates: bool = False) -> "Iterator[Database]":
    """The database of the service, migrated, and closed at the end.

    OperatorError if there is none, unless the command `creates` what a first account needs: a command in
    the wrong folder leaves nothing there, and does not make it seem that the accounts are gone. While a
    service of this user runs, nothing is created in a folder that was not named.
    """
    from tenuto.config import FOLDER
    from tenuto.process.data_opening import open_existing, open_records
    from tenuto.process.local_services import live_services

    settings = location.settings()
    is_named = location.data is not None or settings.folder != FOLDER
    creates = creates and (is_named or not live_services())
    with closing((open_records if creates else open_existing)(settings)) as database:
        arm_failpoints()
        yield database


def own_blobs(settings: "Settings", database: "Database") -> "BlobStore":
    """The store that the database belongs to. OperatorError for any other store."""
    from tenuto.process.store_watch import open_own_blobs

    return open_own_blobs(settings, database)


def new_ids() -> "Ids":
    """A source of ids for this command."""
    from tenuto.ids import Ids

    return Ids(clock)


def change(
    location: ServiceLocation,
    operation: "Callable[[Transaction], T]",
    *,
    again: str = SAME_AGAIN,
    creates: bool = False,
) -> T:
    """Run one operation on the records; see `records` and `settle`."""
    with records(location, creates=creates) as database:
        return settle(database, operation, again=again)


def settle(database: "Database", operation: "Callable[[Transaction], T]", *, again: str = SAME_AGAIN) -> T:
    """Run an idempotent operation, one that detects an earlier run of itself, retrying until its outcome is
    known. If that stays unknown, the error ends with `again`: what to do about it.
    """
    from tenuto.db.retrying import write_known

    try:
        return write_known(database, operation, patience_s=PATIENCE_S)
    except CommitUnknown as error:
        raise OperatorError(
            "the database was lost while this was stored and has not come back;"
            f" whether it is stored is unknown; {again}"
        ) from error
    except KeyboardInterrupt:
        tell(f"tenuto: interrupted; whether this is stored is unknown; {again}")
        raise SystemExit(130) from None


def named_entry(entry: str | None) -> str:
    """The id of the ledger entry that a command writes: `entry`, or a new one."""
    from tenuto.ids import is_id

    if entry is not None and not is_id(entry, "entry"):
        raise OperatorError(f"--id {entry!r} is not the id of a ledger line; leave it out for a new one")
    return entry or new_ids().new("entry")


def once_more(command: str, entry: str, location: ServiceLocation) -> str:
    """What to run if it is unknown whether a command has written its ledger entry."""
    return f"run this, which takes effect only once: {command} --id {entry}{location.again}"


def model_names(names: str | None, settings: "Settings") -> list[str] | None:
    """The named models. OperatorError for an unknown name: a typo would restrict to nothing."""
    from tenuto.host.registry import ENTRIES

    if names is None:
        return None
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = list(dict.fromkeys([*(entry.model for entry in ENTRIES), *settings.models]))
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise OperatorError(
            f"there is no model {', '.join(unknown) or repr(names)}; there are {', '.join(known)}"
        )
    return wanted


def say(text: str) -> None:
    """Print a line of results, translated into the reader's language if it is one of our own sentences."""
    _put(translated(text))


def _put(text: str) -> None:
    try:
        streams.write(text + "\n")
    except BrokenPipeError:
        raise SystemExit(streams.leave()) from None
    except OSError as error:
        raise OperatorError(f"{error.filename}: {error.strerror}") from error


def report(text: str) -> None:
    """Print a result of a command that has changed something: if the line cannot be written, the error says
    that the change is done.
    """
    try:
        say(text)
    except OperatorError as error:
        raise OperatorError(
            f"this is done, but its result could not be written to {error.message}"
        ) from error


def json_line(value: Any) -> str:
    """A value as one line of JSON, for scripts."""
    return json.dumps(value, ensure_ascii=False, default=str)


def tell(text: str) -> None:
    """Print a line for the person at the terminal, not for scripts."""
    print(translated(text), file=sys.stderr, flush=True)


def table(headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Print a table: aligned, with translated headings, on a terminal; separated by tabs for scripts."""
    is_piped = not sys.stdout.isatty()
    named = [str(heading) if is_piped else t(str(heading)) for heading in headings]
    lines = [named, *([_cell_text(cell) for cell in row] for row in rows)]
    for text in map("\t".join, lines) if is_piped else aligned(lines):
        _put(text)


def moment(at_ms: int | None) -> str | None:
    """A time in readable form, in UTC; None if there is none."""
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _cell_text(cell: Any) -> str:
    return "-" if cell is None else str(cell)


def readable_size(size_bytes: int) -> str:
    """A size with a unit, for people."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} B"
