"""`tenuto admin recover`: jobs whose paid call has an unknown outcome, and the three ways out."""

import argparse
import getpass
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tenuto.command.common import (
    json_line,
    moment,
    named_entry,
    new_ids,
    once_more,
    own_blobs,
    records,
    report,
    say,
    settle,
    table,
)
from tenuto.command.options import ServiceLocation, add_entry, add_location, location_of
from tenuto.errors import OperatorError
from tenuto.process.runtime import clock
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

if TYPE_CHECKING:
    from tenuto.db.database import Database
    from tenuto.job.finish import RecordedResult
    from tenuto.job.states import Decision


def add(parser: Parser, name: str) -> None:
    """The commands and their options."""
    every = parser.add_verb("list", "List the jobs that wait, oldest first.", "ls")
    every.add_json()
    complete = parser.add_verb("complete", "The call succeeded: charge for its result and deliver it.")
    requeue = parser.add_verb("requeue", "Run the job again, although its first call may have been paid for.")
    void = parser.add_verb("void", "Give up the job: release its hold and charge nothing.")
    for command in (complete, requeue, void):
        command.add_argument(
            "job", metavar="JOB", help=t("the id of the job, as `tenuto admin recover list` shows it")
        )
        command.add_argument(
            "--operator", metavar="NAME", help=t("who decides (default: the user of this shell)")
        )
        command.add_argument(
            "--note", metavar="TEXT", help=t("why; kept with the decision and shown only to operators")
        )
        add_entry(command)
    complete.add_argument("--file", type=Path, metavar="FILE", help=t("the result, if none was recorded"))
    void.add_argument("--cancelled", action="store_true", help=t("end the job as cancelled, not failed"))
    for command, run in {every: _list, complete: _complete, requeue: _requeue, void: _void}.items():
        add_location(command)
        command.set_defaults(run=run)


def _list(options: argparse.Namespace, console: Console) -> int:
    """List the jobs that wait, oldest first."""
    from tenuto.job import recover
    from tenuto.money.rules import cny

    with records(location_of(options)) as database:
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
    if options.as_json:
        say(json_line([dict(zip(headings, line, strict=True)) for line in lines]))
    else:
        table(headings, lines)
    return 0


def _complete(options: argparse.Namespace, console: Console) -> int:
    """Finish the job with its recorded result, or with a file; it is charged."""
    from tenuto.job import recover

    job_id, file, location = options.job, options.file, location_of(options)
    by, ids, now_ms = _decision(options), new_ids(), clock()
    again = _again("complete", job_id, by, location, file=file)
    with records(location) as database:
        result = None
        if file is None:
            recover.check_recorded(database, own_blobs(location.settings(), database), job_id)
        else:
            result = _supplied(database, job_id, file, location)
        settle(
            database,
            lambda tx: recover.complete(tx, ids, job_id, result, by=by, now_ms=now_ms),
            again=again,
        )
        database.wake("changes")
    report(f"{job_id} succeeded; `tenuto admin evidence {job_id}` shows what was charged")
    return 0


def _requeue(options: argparse.Namespace, console: Console) -> int:
    """Run the job again, although its first call may have been paid for."""
    from tenuto.job import queue, recover

    job_id, location = options.job, location_of(options)
    by, ids, now_ms = _decision(options), new_ids(), clock()
    again = _again("requeue", job_id, by, location)
    with records(location) as database:
        settle(database, lambda tx: recover.requeue(tx, ids, job_id, by=by, now_ms=now_ms), again=again)
        queue.wake(database)
        database.wake("changes")
    report(f"{job_id} is queued again")
    return 0


def _void(options: argparse.Namespace, console: Console) -> int:
    """Give up the job: release its hold and charge nothing."""
    from tenuto.job import recover

    job_id, location = options.job, location_of(options)
    by, ids, now_ms = _decision(options), new_ids(), clock()
    with records(location) as database:
        settle(
            database,
            lambda tx: recover.void(tx, ids, job_id, cancel=options.cancelled, by=by, now_ms=now_ms),
            again=_again("void", job_id, by, location, cancelled=options.cancelled),
        )
        database.wake("changes")
    report(f"{job_id} is {'cancelled' if options.cancelled else 'failed'}, its hold released")
    return 0


def _decision(options: argparse.Namespace) -> "Decision":
    from tenuto.job.states import Decision

    entry_id = named_entry(options.entry)
    try:
        return Decision(options.operator or getpass.getuser(), options.note, entry_id)
    except (KeyError, OSError) as error:
        raise OperatorError("this shell's user has no name; name who decides: --operator NAME") from error


def _again(
    verb: str,
    job_id: str,
    by: "Decision",
    location: ServiceLocation,
    *,
    file: Path | None = None,
    cancelled: bool = False,
) -> str:
    """The command that repeats this decision exactly, for when it is unknown whether it was carried out."""
    assert by.entry_id is not None, "every command makes it first"
    words = ["tenuto", "admin", "recover", verb, job_id, "--operator", by.operator]
    words += ["--note", by.note] if by.note is not None else []
    words += ["--file", str(file)] if file is not None else []
    words += ["--cancelled"] if cancelled else []
    return once_more(shlex.join(words), by.entry_id, location)


def _supplied(database: "Database", job_id: str, file: Path, location: ServiceLocation) -> "RecordedResult":
    """The file as a durable result, after checking that it fits the job's kind and the job is waiting."""
    from tenuto.job import recover
    from tenuto.job.finish import RecordedResult

    try:
        content = file.read_bytes()
    except OSError as error:
        raise OperatorError(f"{file} cannot be read: {error.strerror}") from error
    supplied = database.read(lambda tx: recover.fit(tx, job_id, content))
    blob = own_blobs(location.settings(), database).write(new_ids().new("blob"), content)
    return RecordedResult(blob, supplied.media_type, supplied.metadata, supplied.duration_ms)
