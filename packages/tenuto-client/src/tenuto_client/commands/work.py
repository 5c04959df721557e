"""From what was asked to the file that holds it, through every crash, for all verbs that make a job.

The purpose that it writes into the journal is all that `resume` knows of the command.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenuto_client import downloads, following, reads
from tenuto_client.audio import as_flac
from tenuto_client.commands import streams
from tenuto_client.commands.console import WORK_RETRIES, Console
from tenuto_client.commands.words import t
from tenuto_client.errors import InvalidSetting, JobError, JournalError
from tenuto_client.exchange import Link
from tenuto_client.journal import Entry
from tenuto_client.records import Operation
from tenuto_client.steps import Flow
from tenuto_client.submission import Reading, Recording, Work, carry_on, submit

STDOUT = "-"
KINDS = {"say": "speech", "draw": "image", "transcribe": "recognition"}
"""The kind of work that each verb asks for."""
SUFFIXES = {"speech": ".wav", "image": ".png", "recognition": ".json"}
_OTHER_FORMS = {
    "say": ("WAV", ".wav", {".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aiff", ".mp4"}),
    "draw": ("PNG", ".png", {".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tiff", ".svg", ".pdf"}),
    "transcribe": (
        "txt, srt, vtt, json",
        ".txt",
        {".docx", ".doc", ".odt", ".pdf", ".rtf", ".html", ".ass", ".csv"},
    ),
}
"""What a verb makes, how that ends, and endings of what it does not make: such a file would deceive."""


def purpose_of(verb: str, output: str | None, form: str = "", source: Path | None = None) -> dict[str, Any]:
    """What is to become of a result. Without an output it is named after its job, in this folder."""
    found: dict[str, Any] = {"verb": verb, "form": form, "folder": str(Path.cwd())}
    if output == STDOUT:
        found["file"] = STDOUT
    elif output:
        made, right, others = _OTHER_FORMS[verb]
        if Path(output).suffix.lower() in others:
            better = Path(output).with_suffix(right)
            raise InvalidSetting(
                t("{path}: what is made is {form}; name it {better}", path=output, form=made, better=better)
            )
        found["file"] = str(writable(Path(output)))
    if source is not None:
        found["source"] = str(source.resolve())
    return found


def writable(path: Path) -> Path:
    """The absolute path, once it is sure that a file can be there. Raises InvalidSetting, before any work."""
    whole = path.expanduser().absolute()
    if whole.is_dir():
        raise InvalidSetting(t("{path} is a folder; name a file in it", path=path))
    if not whole.parent.is_dir():
        raise InvalidSetting(t("{path}: there is no such folder", path=whole.parent))
    if not os.access(whole.parent, os.W_OK):
        raise InvalidSetting(t("{path} cannot be written", path=whole.parent))
    return whole


def carry_out(
    console: Console,
    kind: str,
    options: argparse.Namespace,
    parameters: Mapping[str, Any],
    purpose: Mapping[str, Any],
) -> tuple[Entry, Reading]:
    """Submit work, or resume what an earlier run of the same command began.

    `options` are those of `add_work`: the model, and whether a job without a result is made again.
    """
    console.retries = WORK_RETRIES
    link = console.link
    console.options.cut_off = "tenuto resume"
    model = options.model or console.run(reads.model_for(link, kind))
    document = {"model": model, "parameters": dict(parameters)}
    source = purpose.get("source")

    def flow(recording: Recording | None) -> Flow[tuple[Reading, Entry | None]]:
        on_bytes = console.progress.bytes(t("uploading"))
        work = Work(document, recording, purpose=purpose, on_bytes=on_bytes, again=options.again)
        return submit(link, work)

    if source is None:
        console.progress.stage(t("submitting"))
        reading, entry = console.run(flow(None))
    else:
        console.progress.stage(t("converting"))
        with as_flac(Path(source)) as content:
            reading, entry = console.run(flow(Recording.of(content)))
    assert entry is not None
    _remember(console, reading)
    if entry.ended is not None:
        console.tell(t("submitted before: {job}", job=reading.operation.id))
    elif not entry.is_new:
        console.tell(t("resuming {job}, which was interrupted", job=reading.operation.id))
    return entry, reading


def go_on(console: Console, link: Link, entry: Entry) -> Reading:
    """What `resume` does first: get the entry's job accepted, from wherever it stands."""
    source = entry.purpose.get("source")
    if entry.body is not None or source is None:
        return console.run(carry_on(link, entry))
    console.progress.stage(t("converting"))
    with as_flac(Path(source)) as content:
        on_bytes = console.progress.bytes(t("uploading"))
        return console.run(carry_on(link, entry, Recording.of(content), on_bytes))


def complete(
    console: Console, link: Link, entry: Entry, reading: Reading, purpose: Mapping[str, Any]
) -> tuple[Operation, str]:
    """Wait, and put the result where the purpose says; gives the place, `-` for stdout.

    The entry is left to `resume` when this is interrupted, or the job waits for its operator. After every end
    without a result it keeps the id, so that the same command makes no second job by itself.
    """
    _remember(console, reading)
    try:
        reading = console.run(following.wait(link, reading, on_change=console.progress.operation))
        _remember(console, reading)
        operation = reading.operation
        artifact = following.result_of(operation, KINDS.get(purpose.get("verb", "")))
        form = purpose.get("form") or ""
        place = _place(purpose, operation)
        if place != STDOUT:
            downloads.remove_partials(Path(place), operation.id)
        if place == STDOUT or form not in ("", "json"):
            put(place, _formed(console.run(downloads.load(link, artifact)), form))
        else:
            on_bytes = console.progress.bytes(t("downloading"))
            console.run(downloads.save(link, artifact, Path(place), job_id=operation.id, on_bytes=on_bytes))
    except JobError as error:
        if not error.operation.is_pending:
            # Where it cannot be noted the job says it again when it is read.
            with suppress(JournalError):
                entry.note(ended=error.operation.state)
        entry.release()
        raise
    except BaseException:
        entry.release()
        raise
    finally:
        console.progress.clear()
    entry.finish()
    return operation, place


def finish(console: Console, entry: Entry, reading: Reading) -> int:
    """Complete a command's own work and say where the result is; gives the exit code."""
    operation, place = complete(console, console.link, entry, reading, entry.purpose)
    report(console, operation, place)
    return 0


def report(console: Console, operation: Operation, place: str) -> None:
    """Where the result is: a path on stdout, or all of it as JSON."""
    if place == STDOUT:
        return
    shown = os.path.relpath(place) if Path(place).is_relative_to(Path.cwd()) else place
    if console.as_json:
        console.document({"file": place, "job": dict(operation.raw)})
        return
    console.say(shown)
    billing = operation.billing
    if billing is not None and sys.stderr.isatty():
        console.tell(t("{job}, {charged} {currency}", job=operation.id, **_charged(operation)))


def _remember(console: Console, reading: Reading) -> None:
    """What to say when Ctrl-C comes, or the disk is full."""
    job_id = reading.operation.id
    word = shlex.quote(job_id)
    other = f"cancel {word}" if reading.operation.is_pending else f"download {word} -o FILE"
    console.options.cut_off = f"tenuto resume ({t('or')}: tenuto jobs {other})"
    console.progress.operation(reading.operation)


def _place(purpose: Mapping[str, Any], operation: Operation) -> str:
    named = purpose.get("file")
    if named:
        return str(named)
    form = purpose.get("form") or ""
    suffix = f".{form}" if form else SUFFIXES[KINDS[purpose["verb"]]]
    return str(Path(purpose["folder"], downloads.file_name(operation.id) + suffix))


def _formed(content: bytes, form: str) -> bytes:
    if form in ("", "json"):
        return content
    from tenuto_client.transcripts import written

    return written(json.loads(content), form).encode()


def put(place: str, content: bytes) -> None:
    if place == STDOUT:
        streams.write(content)
        return
    path = Path(place)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{downloads.PARTIAL}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _charged(operation: Operation) -> dict[str, str]:
    assert operation.billing is not None
    return {"charged": operation.billing.charged, "currency": operation.billing.currency}
