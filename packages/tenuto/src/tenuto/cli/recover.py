"""`tenuto recover`: jobs whose paid call has an unknown outcome, and the three ways out."""

import getpass
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from tenuto import bootstrap
from tenuto.cli.common import (
    HERE,
    AsJson,
    EntryId,
    Place,
    json_line,
    moment,
    named_entry,
    new_ids,
    once_more,
    records,
    report,
    say,
    settle,
    table,
)
from tenuto.errors import OperatorError

if TYPE_CHECKING:
    from tenuto.db.database import Database
    from tenuto.jobs.lifecycle import RecordedResult
    from tenuto.jobs.recover import Decision

app = App(name="recover", help="Jobs that wait for an operator.")

Who = Annotated[str | None, Parameter(name="--operator", help="Who decides; else the user of this shell.")]
JobId = Annotated[str, Parameter(help="The job, as `tenuto recover list` shows it.")]
Note = Annotated[str | None, Parameter(help="Why; kept with the decision, shown to operators alone.")]


@app.command(name="list")
def list_jobs(*, place: Place = HERE, as_json: AsJson = False) -> None:
    """List the jobs that wait, oldest first."""
    from tenuto.billing.rules import cny
    from tenuto.jobs import recover

    with records(place) as database:
        jobs = database.read(recover.waiting)
    headings = ("job", "model", "created", "attempts", "held", "reason")
    lines = [
        (
            job.id,
            job.model,
            moment(job.created_at),
            job.attempts,
            cny(job.hold_micros),
            job.error_message,
        )
        for job in jobs
    ]
    if as_json:
        say(json_line([dict(zip(headings, line, strict=True)) for line in lines]))
    else:
        table(headings, lines)


@app.command
def show(job_id: JobId, *, place: Place = HERE, as_json: AsJson = False) -> None:
    """Show all the evidence of a job, its recorded bytes read again, and what each exit would do."""
    from tenuto.cli.evidence import lines
    from tenuto.jobs import recover

    now_ms = bootstrap.clock()
    with records(place) as database:
        blobs = bootstrap.open_own_blobs(place.settings(), database)
        found = recover.examine(database, blobs, job_id, now_ms=now_ms)
    if as_json:
        say(json_line(found))
        return
    for line in lines(found):
        say(line)


@app.command
def complete(
    job_id: JobId,
    *,
    file: Annotated[Path | None, Parameter(help="The result, when none was recorded.")] = None,
    operator: Who = None,
    note: Note = None,
    entry: EntryId = None,
    place: Place = HERE,
) -> None:
    """The call did succeed: finish the job with its recorded result, or with a file; it is charged."""
    from tenuto.jobs import recover

    by, ids, now_ms = _decision(operator, note, entry), new_ids(), bootstrap.clock()
    again = _again("complete", job_id, by, place, file=file)
    with records(place) as database:
        result = None
        if file is None:
            recover.check_recorded(database, bootstrap.open_own_blobs(place.settings(), database), job_id)
        else:
            result = _supplied(database, job_id, file, place)
        settle(
            database,
            lambda tx: recover.complete(tx, ids, job_id, result, by=by, now_ms=now_ms),
            again=again,
        )
        database.wake("changes")
    report(f"{job_id} succeeded; `tenuto recover show {job_id}` shows what was charged")


@app.command
def requeue(
    job_id: JobId, *, operator: Who = None, note: Note = None, entry: EntryId = None, place: Place = HERE
) -> None:
    """Run the job again, although its first call may have been paid for."""
    from tenuto.jobs import recover

    by, ids, now_ms = _decision(operator, note, entry), new_ids(), bootstrap.clock()
    with records(place) as database:
        settle(
            database,
            lambda tx: recover.requeue(tx, ids, job_id, by=by, now_ms=now_ms),
            again=_again("requeue", job_id, by, place),
        )
        database.wake("jobs")
        database.wake("changes")
    report(f"{job_id} is queued again")


@app.command
def void(
    job_id: JobId,
    *,
    cancelled: Annotated[
        bool, Parameter(negative="", show_default=False, help="End it as cancelled, not failed.")
    ] = False,
    operator: Who = None,
    note: Note = None,
    entry: EntryId = None,
    place: Place = HERE,
) -> None:
    """Give the job up: its hold is released, nothing is charged."""
    from tenuto.jobs import recover

    by, ids, now_ms = _decision(operator, note, entry), new_ids(), bootstrap.clock()
    with records(place) as database:
        settle(
            database,
            lambda tx: recover.void(tx, ids, job_id, cancel=cancelled, by=by, now_ms=now_ms),
            again=_again("void", job_id, by, place, cancelled=cancelled),
        )
        database.wake("changes")
    report(f"{job_id} is {'cancelled' if cancelled else 'failed'}, its hold released")


def _decision(operator: str | None, note: str | None, given: str | None) -> "Decision":
    from tenuto.jobs.recover import Decision

    entry_id = named_entry(given)
    try:
        return Decision(operator or getpass.getuser(), note, entry_id)
    except (KeyError, OSError) as error:
        raise OperatorError("this shell's user has no name; say who decides: --operator NAME") from error


def _again(
    verb: str, job_id: str, by: "Decision", place: Place, *, file: Path | None = None, cancelled: bool = False
) -> str:
    """The same decision, word for word, to be run when it is unknown whether it was carried out."""
    assert by.entry_id is not None, "every command makes it first"
    words = ["tenuto", "recover", verb, job_id, "--operator", by.operator]
    words += ["--note", by.note] if by.note is not None else []
    words += ["--file", str(file)] if file is not None else []
    words += ["--cancelled"] if cancelled else []
    return once_more(shlex.join(words), by.entry_id, place)


def _supplied(database: "Database", job_id: str, file: Path, place: Place) -> "RecordedResult":
    """The file as a durable result, after it was found to be one of the job's kind, and the job to wait."""
    from tenuto.jobs import recover
    from tenuto.jobs.lifecycle import RecordedResult

    try:
        content = file.read_bytes()
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}") from error
    supplied = database.read(lambda tx: recover.fit(tx, job_id, content))
    blob = bootstrap.open_own_blobs(place.settings(), database).write(new_ids().new("blob"), content)
    return RecordedResult(blob, supplied.media_type, supplied.metadata, supplied.duration_ms)
