"""`tenuto resume`: finishes interrupted jobs of commands and programs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from tenuto_client import settings
from tenuto_client.commands import work
from tenuto_client.commands.console import WORK_RETRIES, Console, moment
from tenuto_client.commands.exits import report
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t
from tenuto_client.errors import NotConfigured, TenutoError
from tenuto_client.exchange import Link
from tenuto_client.journal import Entry, Journal, fingerprint
from tenuto_client.submission import check_caller


def add(parser: Parser, verb: str) -> None:
    """Declare the options."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--list", action="store_true", dest="only_list", help=t("list interrupted jobs without resuming any")
    )
    group.add_argument(
        "--drop", metavar="KEY", help=t("remove one entry; its job, if any, continues on the service")
    )
    parser.add_argument(
        "--same-key",
        action="store_true",
        help=t("the API key was rotated, not replaced: resend requests whose outcome is unknown"),
    )
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Finish interrupted jobs, oldest first; the exit code is that of the first failure."""
    console.retries = WORK_RETRIES
    journal = Journal(settings.journal_folder())
    if options.only_list:
        return _list(console, journal)
    if options.drop:
        return _drop(console, journal, options.drop)
    code, number = 0, 0
    for entry in journal.interrupted():
        if entry.is_settled:
            entry.release()
            continue
        number += 1
        try:
            _finish(options, console, entry)
        except (TenutoError, OSError) as error:
            console.progress.clear()
            entry.release()
            code = code or report(error, console)
    if not number:
        console.tell(t("nothing to resume"))
    return code


def _finish(options: argparse.Namespace, console: Console, entry: Entry) -> None:
    link = console.link_to(str(entry.facts["base_url"]), _key_of(entry))
    if options.same_key:
        entry.note(caller=fingerprint(link.api_key))
    check_caller(link, entry)
    if not entry.purpose and entry.body is None:
        console.tell(t("{key}: nothing was submitted, and the recording is gone", key=entry.key))
        entry.finish()
        return
    _connect(console, link)
    reading = work.get_accepted(console, link, entry)
    if not entry.purpose:
        # A program's job: it never got the id, or never waited for the job.
        console.progress.clear()
        console.say(f"{reading.operation.id}  {t('submitted by a program; follow it by its id')}")
        entry.finish()
        return
    purpose = dict(entry.purpose)
    if purpose.get("file") == work.STDOUT:
        # Whatever read that stdout is gone, so the result goes to a file.
        del purpose["file"]
    # Whoever named the file did not know of what was written there since.
    purpose["is_taken"] = _is_newer(purpose.get("file"), entry.facts.get("began_at"))
    operation, target = work.complete(console, link, entry, reading, purpose)
    work.report(console, operation, target)


def _is_newer(file: str | None, began_at: float | None) -> bool:
    """Whether the file was written after the command began."""
    try:
        return bool(file and began_at) and Path(str(file)).stat().st_mtime > float(began_at or 0) + 1
    except OSError:
        return False


def _key_of(entry: Entry) -> str | None:
    """The saved key that the entry was sent with, even if the environment sets another; None: the default.

    Raises NotConfigured if the key in the environment is for another service, as it is never sent elsewhere.
    """
    url, caller = str(entry.facts["base_url"]), entry.facts.get("caller")
    from_environment, saved = os.environ.get(settings.API_KEY), settings.saved_key(url)
    if from_environment is None or fingerprint(from_environment.strip()) == caller:
        return None
    if saved is not None and fingerprint(saved) == caller:
        return saved
    if os.environ.get(settings.BASE_URL) and settings.current_url(None) != url:
        if saved is None:
            raise NotConfigured(f"{settings.API_KEY} is for another service, and no key is saved for {url}")
        return saved
    return None


def _connect(console: Console, link: Link) -> None:
    """Use the service of the entry from now on."""
    from tenuto_client.drive import Driver

    console.link = link
    console.driver = Driver(link)


def _list(console: Console, journal: Journal) -> int:
    rows = [
        (
            entry.key,
            moment(entry.facts.get("began_at")),
            entry.purpose.get("verb") or "-",
            entry.operation_id or t("in doubt") if entry.body else t("not submitted"),
            entry.ended,
            entry.facts.get("base_url"),
            _target(entry),
        )
        for entry in _each(journal)
    ]
    headings = ("key", "began", "verb", "job", "ended", "service", "file")
    if console.as_json:
        console.document([dict(zip(headings, row, strict=True)) for row in rows])
    else:
        console.table(headings, rows)
    return 0


def _each(journal: Journal) -> Iterator[Entry]:
    """Every entry; each is unlocked before the next."""
    for entry in journal.interrupted():
        yield entry
        entry.release()


def _drop(console: Console, journal: Journal, key: str) -> int:
    for entry in _each(journal):
        if entry.key == key:
            entry.finish()
            console.say(entry.operation_id or key)
            return 0
    raise TenutoError(t("no such key; see `tenuto resume --list`"))


def _target(entry: Entry) -> str | None:
    target = entry.purpose.get("file") or entry.purpose.get("folder")
    return None if target is None else str(Path(target))
