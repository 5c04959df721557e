"""`tenuto jobs`: list, show, wait, download, cancel."""

from __future__ import annotations

import argparse
import datetime
import math
import shlex
from pathlib import Path

from tenuto_client import downloads, following, pacing, placing, reads, results
from tenuto_client.commands.console import WORK_RETRIES, Console, moment
from tenuto_client.commands.parser import Parser, add_force, between, checked
from tenuto_client.commands.words import t
from tenuto_client.records import Operation
from tenuto_client.submission import Reading

STATES = ("submitting", "queued", "running", "succeeded", "failed", "cancelled", "recovery_required")


def add(parser: Parser, verb: str) -> None:
    """Declare the subcommands and their options."""
    listing = parser.add_verb("list", "List jobs, newest first.", "ls")
    _add_filters(listing)
    listing.add_argument(
        "-n",
        "--limit",
        type=between(1, 100, int),
        default=20,
        metavar="N",
        help=t("how many, 1 to 100 (default: 20)"),
    )
    listing.add_argument("--after", metavar="JOB", help=t("only jobs older than this one"))
    listing.set_defaults(run=_list)
    get = parser.add_verb("show", "Show a job and its history.", "get")
    wait = parser.add_verb("wait", "Wait until a job finishes.")
    download = parser.add_verb("download", "Wait for a job and save its result.")
    cancel = parser.add_verb("cancel", "Cancel a job.")
    for command, run in ((get, _get), (wait, _wait), (download, _download), (cancel, _cancel)):
        command.add_argument("job", metavar="JOB", help=t("the id of the job"))
        command.set_defaults(run=run)
    wait.add_argument(
        "--timeout",
        type=checked(_seconds),
        default=pacing.GIVE_UP_S,
        metavar="S",
        help=t("seconds (default: 7200)"),
    )
    download.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=t("the output file; - for stdout (default: named after the job)"),
    )
    add_force(download)
    for command in (listing, get, wait, download, cancel):
        command.common()


def _add_filters(listing: Parser) -> None:
    listing.add_argument("--state", choices=STATES, help=t("only jobs in this state"))
    listing.add_argument(
        "--kind", choices=("speech", "recognition", "image"), help=t("only jobs of this kind")
    )
    listing.add_argument("--model", metavar="MODEL", help=t("only jobs of this model"))
    listing.add_argument(
        "--search", metavar="TEXT", help=t("only jobs whose text, prompt or file name contains this")
    )
    listing.add_argument("--voice", metavar="VOICE_ID", help=t("only speech with this voice, by its id"))
    listing.add_argument(
        "--metadata",
        type=checked(_pair),
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=t("only jobs with this pair in their metadata; repeatable"),
    )
    listing.add_argument(
        "--since", type=checked(_day), metavar="DAY", help=t("only jobs of this day or later, as 2026-11-30")
    )
    listing.add_argument(
        "--until", type=checked(_day), metavar="DAY", help=t("only jobs of this day or earlier")
    )


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise ValueError(t("write NAME=VALUE, for example chapter=3"))
    return f"metadata[{name}]", value


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError(t("write a day, for example 2026-11-30")) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ValueError(t("write seconds, for example 60"))
    return seconds


def _list(options: argparse.Namespace, console: Console) -> int:
    query = {
        "state": options.state,
        "kind": options.kind,
        "model": options.model,
        "q": options.search,
        "voice": options.voice,
        **dict(options.metadata),
        "created_from": _midnight(options.since, 0),
        "created_before": _midnight(options.until, 1),
    }
    operations = console.run(reads.found(console.link, query, after=options.after, limit=options.limit))
    if console.as_json:
        console.document([dict(operation.raw) for operation in operations])
        return 0
    rows = [
        (
            *(o.id, o.kind, o.model, o.state, moment(o.created_at)),
            *(o.billing.charged if o.billing else None, _title(o)),
        )
        for o in operations
    ]
    console.table(
        ("job", "kind", "model", "state", "created", "charged", "title"),
        rows,
        amounts=("charged",),
        spared=("model", "charged", "kind"),
    )
    return 0


def _midnight(day: datetime.date | None, days_later: int) -> int | None:
    """When a day begins in UTC, the time zone of the table."""
    if day is None:
        return None
    began = datetime.datetime.combine(day, datetime.time(), datetime.UTC) + datetime.timedelta(days_later)
    return max(0, int(began.timestamp()))


def _title(operation: Operation) -> str | None:
    return t("(erased)") if operation.erased_at is not None else operation.title


def _get(options: argparse.Namespace, console: Console) -> int:
    reading = console.run(following.show(console.link, options.job))
    if console.as_json:
        console.document(dict(reading.operation.raw))
        return 0
    _show(console, reading.operation)
    for event in console.run(reads.events(console.link, options.job)):
        console.say(f"{moment(event.at)}  {event.type}{f'  {event.detail}' if event.detail else ''}")
    return 0


def _wait(options: argparse.Namespace, console: Console) -> int:
    console.options.continuation = f"tenuto jobs wait {shlex.quote(options.job)}"
    reading = _wait_for(options.job, console, options.timeout)
    following.result_of(reading.operation)
    if console.as_json:
        console.document(dict(reading.operation.raw))
    else:
        console.say(reading.operation.state)
    return 0


def _download(options: argparse.Namespace, console: Console) -> int:
    from tenuto_client.commands import work

    work.ask_before_replacing(console, options)
    console.options.continuation = f"tenuto jobs download {shlex.quote(options.job)} -o FILE"
    reading = _wait_for(options.job, console, pacing.GIVE_UP_S)
    artifact = following.result_of(reading.operation)
    suffix = work.SUFFIXES.get(reading.operation.kind or "", "")
    whole = Path(f"{downloads.file_name(reading.operation.id)}{suffix}").absolute()
    name = options.output or str(placing.scratch(whole, reading.operation.id))
    if name == work.STDOUT:
        work.put(name, console.run(downloads.load(console.link, artifact)))
        return 0
    path = work.writable(Path(name))
    kind = reading.operation.kind or results.kind_of(artifact)
    form = results.form_of(kind, path) or ""
    results.check(form)
    on_bytes = console.progress.bytes(t("downloading"))
    console.run(
        results.save(
            console.link, artifact, path, kind=kind, form=form, job_id=options.job, on_bytes=on_bytes
        )
    )
    console.progress.clear()
    # Only a file that the user named is replaced.
    work.report(console, reading.operation, str(path if options.output else placing.place(path, whole)))
    return 0


def _cancel(options: argparse.Namespace, console: Console) -> int:
    operation = console.run(following.cancel(console.link, options.job)).operation
    if console.as_json:
        console.document(dict(operation.raw))
    elif operation.state == "running" and operation.cancel_requested:
        console.say(t("{job} will stop within seconds", job=operation.id))
    else:
        console.say(f"{operation.id}  {operation.state}")
    return 0


def _wait_for(job_id: str, console: Console, timeout_s: float) -> Reading:
    console.retries = WORK_RETRIES
    link = console.link
    reading = console.run(following.show(link, job_id))
    on_change = console.progress.operation
    try:
        return console.run(following.wait(link, reading, timeout_s=timeout_s, on_change=on_change))
    finally:
        console.progress.clear()


def _show(console: Console, operation: Operation) -> None:
    billing = operation.billing
    fields = {
        "job": operation.id,
        "title": _title(operation),
        "state": operation.state,
        "kind": operation.kind,
        "model": operation.model,
        "attempt": operation.attempt,
        "result": ", ".join(f"{a.media_type} {a.size_bytes} bytes {a.sha256}" for a in operation.artifacts)
        or None,
        "error": f"{operation.error.code}: {operation.error.message}" if operation.error else None,
        "charged": f"{billing.charged} {billing.currency}" if billing and float(billing.charged) else None,
    }
    for name, value in fields.items():
        if value is not None:
            console.say(f"{t(name)}: {value}")
