"""From a command to its result file, despite crashes: shared by the commands that submit a job.

The purpose in the journal is all that `resume` knows about the command.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tenuto_client import downloads, following, placing, reads, results
from tenuto_client.audio import as_flac
from tenuto_client.commands import streams
from tenuto_client.commands.console import WORK_RETRIES, Console
from tenuto_client.commands.words import t
from tenuto_client.errors import InvalidSetting, JobError, JournalError
from tenuto_client.exchange import Link
from tenuto_client.journal import Entry
from tenuto_client.paths import expanded
from tenuto_client.records import Operation
from tenuto_client.steps import Flow
from tenuto_client.submission import Reading, Recording, Work, carry_on, submit

STDOUT = "-"
KINDS = {"say": "speech", "draw": "image", "transcribe": "recognition"}
"""The kind of job that each command submits."""
SUFFIXES = {"speech": ".wav", "image": ".png", "recognition": ".json"}
_OTHER_SUFFIXES = {
    "say": {".aac", ".aiff", ".mp4", ".wma"},
    "draw": {".gif", ".bmp", ".tiff", ".svg", ".pdf"},
    "transcribe": {".docx", ".doc", ".odt", ".pdf", ".rtf", ".html", ".ass", ".csv"},
}
"""Suffixes that are refused, as such a file name would be misleading."""
_OF_FILES = {f".{form}" for kind in ("speech", "image") for form in results.FORMS[kind]}


def purpose_of(verb: str, output: str | None, form: str = "", source: Path | None = None) -> dict[str, Any]:
    """What to do with a result. Without an output it is named after its job, in the current folder."""
    purpose: dict[str, Any] = {"verb": verb, "form": form, "folder": str(Path.cwd())}
    if output == STDOUT:
        purpose["file"] = STDOUT
    elif output:
        kind, path = KINDS[verb], Path(output)
        wanted = results.form_of(kind, path)
        if wanted is None and path.suffix.lower() in _OF_FILES | _OTHER_SUFFIXES[verb]:
            raise InvalidSetting(
                t(
                    "{path}: the result is {form}; use {better}",
                    path=output,
                    form=", ".join(results.FORMS[kind]),
                    better=path.with_suffix({**SUFFIXES, "recognition": ".txt"}[kind]),
                )
            )
        purpose["form"] = form or (wanted if wanted and wanted != results.NATIVE[kind] else "")
        results.check(purpose["form"])
        purpose["file"] = str(writable(Path(output)))
    else:
        _check_folder(Path.cwd())
    if source is not None:
        purpose["source"] = str(source.resolve())
    return purpose


def writable(path: Path) -> Path:
    """The absolute path, through a link. Raises InvalidSetting, before any work, if no file can be there."""
    whole = expanded(path).absolute()
    if whole.is_dir():
        raise InvalidSetting(t("{path} is a folder; name a file in it", path=path))
    if whole.exists() and not whole.is_file():
        raise InvalidSetting(t("{path} is not a regular file; use - for stdout", path=path))
    if whole.is_symlink():
        whole = Path(os.path.realpath(whole))
    _check_folder(whole.parent)
    return whole


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise InvalidSetting(t("{path}: no such folder", path=folder))
    try:
        # Permissions alone do not tell: a file system may be read-only or not take files.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tenuto-"):
            pass
    except OSError as error:
        raise InvalidSetting(t("{path} cannot be written", path=folder)) from error


def ask_before_replacing(console: Console, options: argparse.Namespace) -> None:
    """On a terminal, ask before replacing an existing file; a script replaces it, as `cp` does."""
    if options.output in (None, STDOUT) or options.force or not console.can_ask:
        return
    if expanded(options.output).is_file() and not console.confirm(
        t("{path} exists; replace it?", path=options.output)
    ):
        raise InvalidSetting(t("{path} was left as it is", path=options.output))


def carry_out(
    console: Console,
    kind: str,
    options: argparse.Namespace,
    parameters: Mapping[str, Any],
    purpose: Mapping[str, Any],
) -> tuple[Entry, Reading]:
    """Submit work, or resume what an earlier run of the same command began.

    `options` are those of `add_work`: `model`, and `again` to replace a job that has no result.
    """
    console.retries = WORK_RETRIES
    link = console.link
    console.options.continuation = "tenuto resume"
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
            reading, entry = console.run(flow(Recording.of(content, Path(source).name)))
    assert entry is not None
    _remember(console, reading)
    if entry.ended is not None:
        console.tell(t("submitted before: {job}", job=reading.operation.id))
    elif not entry.is_new:
        console.tell(t("resuming {job}, which was interrupted", job=reading.operation.id))
    return entry, reading


def get_accepted(console: Console, link: Link, entry: Entry) -> Reading:
    """Get the entry's job accepted, from wherever it was interrupted; the first step of `resume`."""
    source = entry.purpose.get("source")
    if entry.body is not None or source is None:
        return console.run(carry_on(link, entry))
    console.progress.stage(t("converting"))
    with as_flac(Path(source)) as content:
        on_bytes = console.progress.bytes(t("uploading"))
        return console.run(carry_on(link, entry, Recording.of(content, Path(source).name), on_bytes))


def complete(
    console: Console, link: Link, entry: Entry, reading: Reading, purpose: Mapping[str, Any]
) -> tuple[Operation, str]:
    """Wait, and save the result as the purpose says; returns its path, or `-` for stdout.

    If this is interrupted, or the job needs the operator, the entry stays for `resume`. If the job finished
    without a result, the entry keeps the id, so that the same command does not make a second job by itself.
    """
    _remember(console, reading)
    try:
        reading = console.run(following.wait(link, reading, on_change=console.progress.operation))
        _remember(console, reading)
        operation = reading.operation
        target = _save(console, link, operation, purpose)
    except JobError as error:
        if not error.operation.is_pending:
            # If this cannot be written, the state is read from the service again later.
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
    return operation, target


def _save(console: Console, link: Link, operation: Operation, purpose: Mapping[str, Any]) -> str:
    """Save the result where the purpose says, in the requested form; returns the path. Only a file that the
    user named is replaced, as it was then."""
    target = whole = _target(purpose, operation)
    if not purpose.get("file") or purpose.get("is_taken"):
        target = str(placing.scratch(Path(whole), operation.id))
    artifact = following.result_of(operation, KINDS.get(purpose.get("verb", "")))
    kind = KINDS.get(purpose.get("verb", ""), "") or results.kind_of(artifact)
    form = purpose.get("form") or ""
    if target != STDOUT:
        downloads.remove_partials(Path(target), operation.id)
    if target == STDOUT or (kind == "recognition" and form not in ("", "json")):
        content = console.run(downloads.load(link, artifact))
        put(target, results.formed(content, form))
        if purpose.get("verb") == "transcribe":
            _tell_of_transcript(console, json.loads(content))
    else:
        on_bytes = console.progress.bytes(t("downloading"))
        job_id = operation.id
        console.run(
            results.save(link, artifact, Path(target), kind=kind, form=form, job_id=job_id, on_bytes=on_bytes)
        )
    return target if target == whole else str(placing.place(Path(target), Path(whole)))


def finish(console: Console, entry: Entry, reading: Reading) -> int:
    """Complete a command's job and print where the result is; returns the exit code."""
    operation, target = complete(console, console.link, entry, reading, entry.purpose)
    report(console, operation, target)
    return 0


def report(console: Console, operation: Operation, target: str) -> None:
    """Print the engine's warnings, and where the result is: a path, or JSON with the job."""
    if isinstance(warnings := (operation.result or {}).get("warnings"), list):
        for warning in warnings:
            console.tell(t("warning: {text}", text=warning))
    if target == STDOUT:
        return
    path = os.path.relpath(target) if Path(target).is_relative_to(Path.cwd()) else target
    if console.as_json:
        console.document({"file": target, "job": dict(operation.raw)})
        return
    console.say(path)
    billing = operation.billing
    if billing is not None and float(billing.charged) and sys.stderr.isatty():
        console.tell(t("{job}, {charged} {currency}", job=operation.id, **_charged(operation)))


def _remember(console: Console, reading: Reading) -> None:
    """Prepare what to print after Ctrl-C, or if the disk is full."""
    job_id = reading.operation.id
    word = shlex.quote(job_id)
    other = f"cancel {word}" if reading.operation.is_pending else f"download {word} -o FILE"
    console.options.continuation = f"tenuto resume ({t('or')}: tenuto jobs {other})"
    console.progress.operation(reading.operation)


def _target(purpose: Mapping[str, Any], operation: Operation) -> str:
    file = purpose.get("file")
    if file:
        return str(file)
    form = purpose.get("form") or ""
    suffix = f".{form}" if form else SUFFIXES[KINDS[purpose["verb"]]]
    return str(Path(purpose["folder"], downloads.file_name(operation.id) + suffix))


def _tell_of_transcript(console: Console, result: Mapping[str, Any]) -> None:
    """Print the language of each engine's transcript, once if they agree, and the warnings."""
    languages = {engine["model_id"]: engine.get("language") for engine in result["engines"].values()}
    codes = [code for code in dict.fromkeys(languages.values()) if code]
    if len(codes) > 1:
        codes = [f"{code or '-'} ({model})" for model, code in languages.items()]
    if codes:
        console.tell(t("language: {codes}", codes=", ".join(codes)))
    for warning in result["warnings"]:
        console.tell(t("warning: {text}", text=warning))


def put(target: str, content: bytes) -> None:
    if target == STDOUT:
        streams.write(content)
    else:
        downloads.write(Path(target), content)


def _charged(operation: Operation) -> dict[str, str]:
    assert operation.billing is not None
    return {"charged": operation.billing.charged, "currency": operation.billing.currency}
