"""`tenuto watch`: transcribes recordings that arrive in a folder, and speaks texts."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING

from tenuto_client.commands.console import WORK_RETRIES, Console
from tenuto_client.commands.exits import FAILED
from tenuto_client.commands.parser import Parser, add_work
from tenuto_client.commands.words import t, translated
from tenuto_client.errors import InvalidSetting
from tenuto_client.paths import expanded
from tenuto_client.results import FORMS

if TYPE_CHECKING:
    from tenuto_client.lines import LineResult

RESULTS = "results"


def add(parser: Parser, verb: str) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="DIR", help=t("the folder; recordings and .txt or .md files in it"))
    group = parser.add_argument_group(t("result"))
    group.add_argument(
        *("-o", "--output"), metavar="DIR", help=t("the folder of the results (default: results in DIR)")
    )
    group.add_argument(
        "--to",
        choices=[form for kind in ("speech", "recognition") for form in FORMS[kind]],
        action="append",
        default=[],
        help=t("a format of results, one for each kind (default: wav, txt)"),
    )
    group.add_argument("--once", action="store_true", help=t("finish what is in the folder now, then exit"))
    add_work(parser, "docs/guide")
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Work until Ctrl-C, or with `--once` until all files are finished; 1 if any has no result."""
    from tenuto_client import batch, results
    from tenuto_client.inbox import Inbox

    source = expanded(options.folder).absolute()
    if not source.is_dir():
        raise InvalidSetting(t("{path}: no such folder", path=options.folder))
    folder = expanded(options.output).absolute() if options.output else source / RESULTS
    if folder.resolve() == source.resolve():
        raise InvalidSetting(t("results cannot go into the folder that is watched; use -o DIR"))
    console.options.continuation = shlex.join(["tenuto", *sys.argv[1:]])
    console.retries = WORK_RETRIES
    inbox = Inbox(source, time.monotonic, model=options.model, parameters=dict(options.parameters))

    def show(result: LineResult) -> None:
        if result.file is None:
            console.tell(t("{name}: {error}", name=result.id, error=translated(result.error)))
        elif not console.as_json:
            console.say(os.path.relpath(folder / result.file))
        console.progress.stage(t("watching {folder}", folder=options.folder))

    console.progress.stage(t("watching {folder}", folder=options.folder))
    plan = batch.Plan(
        [],
        folder,
        results.forms_by_kind(options.to),
        again=options.again,
        on_line=show,
        scan=inbox.scan,
        is_over=(lambda: inbox.is_settled) if options.once else lambda: False,
    )
    report = console.run(batch.run(console.link, plan))
    console.progress.clear()
    if console.as_json:
        console.document({"report": str(report.path), "lines": [vars_of(each) for each in report.results]})
    return 0 if report.has_succeeded else FAILED


def vars_of(result: LineResult) -> dict[str, object]:
    """A result as JSON shows it."""
    from dataclasses import asdict

    return asdict(result)
