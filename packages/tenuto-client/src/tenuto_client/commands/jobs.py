"""`tenuto jobs`: list, get, wait, download, cancel."""

from __future__ import annotations

import argparse
import math
import shlex
from pathlib import Path

from tenuto_client import downloads, following, pacing, reads
from tenuto_client.commands.console import WORK_RETRIES, Console, moment
from tenuto_client.commands.parser import Parser, checked
from tenuto_client.commands.words import t
from tenuto_client.records import Operation
from tenuto_client.submission import Reading

STATES = ("submitting", "queued", "running", "succeeded", "failed", "cancelled", "recovery_required")


def add(parser: Parser, verb: str) -> None:
    """Declare the subcommands and their options."""
    listing = parser.add_verb("list", "List jobs, newest first.", "ls")
    listing.add_argument("--state", choices=STATES, help=t("only jobs in this state"))
    listing.add_argument(
        "--kind", choices=("speech", "recognition", "image"), help=t("only jobs of this kind")
    )
    listing.add_argument("--model", metavar="MODEL", help=t("only jobs of this model"))
    listing.add_argument(
        "-n", "--limit", type=int, default=20, metavar="N", help=t("how many, 1 to 100 (default: 20)")
    )
    listing.add_argument("--after", metavar="JOB", help=t("only jobs older than this one"))
    listing.set_defaults(run=_list)
    get = parser.add_verb("get", "Show a job and its history.")
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
    for command in (listing, get, wait, download, cancel):
        command.common()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise ValueError(t("write seconds, for example 60"))
    return seconds


def _list(options: argparse.Namespace, console: Console) -> int:
    query = {"state": options.state, "kind": options.kind, "model": options.model}
    operations, _ = console.run(reads.jobs(console.link, query, after=options.after, limit=options.limit))
    if console.as_json:
        console.document([dict(operation.raw) for operation in operations])
        return 0
    rows = [
        (o.id, o.kind, o.model, o.state, moment(o.created_at), o.billing.charged if o.billing else None)
        for o in operations
    ]
    console.table(("job", "kind", "model", "state", "created", "charged"), rows)
    return 0


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

    console.options.continuation = f"tenuto jobs download {shlex.quote(options.job)} -o FILE"
    reading = _wait_for(options.job, console, pacing.GIVE_UP_S)
    artifact = following.result_of(reading.operation)
    suffix = work.SUFFIXES.get(reading.operation.kind or "", "")
    name = options.output or f"{downloads.file_name(reading.operation.id)}{suffix}"
    if name == work.STDOUT:
        work.put(name, console.run(downloads.load(console.link, artifact)))
        return 0
    path = work.writable(Path(name))
    on_bytes = console.progress.bytes(t("downloading"))
    console.run(downloads.save(console.link, artifact, path, job_id=options.job, on_bytes=on_bytes))
    console.progress.clear()
    work.report(console, reading.operation, str(path))
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
        "state": operation.state,
        "kind": operation.kind,
        "model": operation.model,
        "attempt": operation.attempt,
        "result": ", ".join(f"{a.media_type} {a.size_bytes} bytes {a.sha256}" for a in operation.artifacts)
        or None,
        "error": f"{operation.error.code}: {operation.error.message}" if operation.error else None,
        "charged": f"{billing.charged} {billing.currency}" if billing else None,
    }
    for name, value in fields.items():
        if value is not None:
            console.say(f"{t(name)}: {value}")
