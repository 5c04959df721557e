"""`tenuto batch`: a file for every line of a CSV or JSON Lines file, and `report.csv`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import TYPE_CHECKING

from tenuto_client.commands.console import WORK_RETRIES, Console
from tenuto_client.commands.exits import FAILED
from tenuto_client.commands.parser import Parser, add_work, between
from tenuto_client.commands.words import t, translated
from tenuto_client.paths import expanded
from tenuto_client.results import FORMS

if TYPE_CHECKING:
    from tenuto_client.lines import BatchReport, LineResult


def add(parser: Parser, verb: str) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "lines",
        metavar="FILE",
        help=t(
            "a .csv or .jsonl file; each line has an id, one of text, prompt and file, and any parameters"
        ),
    )
    group = parser.add_argument_group(t("result"))
    group.add_argument(
        *("-o", "--output"),
        metavar="DIR",
        required=True,
        help=t("the folder of the results and report.csv; the same folder again continues its batch"),
    )
    group.add_argument(
        "--to",
        choices=[form for forms in FORMS.values() for form in forms],
        action="append",
        default=[],
        help=t("a format of results, one for each kind (default: wav, png, txt)"),
    )
    group.add_argument(
        "--in-flight",
        type=between(1, 1000, int),
        default=32,
        metavar="N",
        help=t("how many jobs are unfinished at a time, 1 to 1000 (default: 32)"),
    )
    add_work(parser, "docs/guide")
    parser.common()
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the batch, and print where its report is; 1 if any line has no file."""
    from tenuto_client import batch, results
    from tenuto_client.lines import read_lines

    lines = read_lines(options.lines, model=options.model, defaults=dict(options.parameters))
    folder = expanded(options.output)
    # First, so that failing to make the folder does not end with the advice to run the same command again.
    folder.mkdir(parents=True, exist_ok=True)
    console.options.continuation = shlex.join(["tenuto", *sys.argv[1:]])
    console.retries = WORK_RETRIES
    display = _Display(console, len(lines))
    plan = batch.Plan(
        lines, folder, results.forms_by_kind(options.to), options.in_flight, options.again, display.add
    )
    display.show()
    report = console.run(batch.run(console.link, plan))
    console.progress.clear()
    _print(console, report)
    return 0 if report.has_succeeded else FAILED


class _Display:
    """Shows how many lines are finished, and prints a message for each that failed."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._done = 0
        self._failed = 0

    def add(self, result: LineResult) -> None:
        self._done += 1
        if not result.has_succeeded:
            self._failed += 1
            name = result.id or t("line {number}", number=result.number)
            self._console.tell(t("{name}: {error}", name=name, error=translated(result.error)))
        self.show()

    def show(self) -> None:
        if self._failed and sys.stderr.isatty():
            text = t("lines, {failed} without a result", failed=self._failed)
        else:
            text = t("lines")
        self._console.progress.stage(text, self._done, self._total)


def _print(console: Console, report: BatchReport) -> None:
    done = sum(result.has_succeeded for result in report.results)
    if console.as_json:
        from dataclasses import asdict

        console.document({"report": str(report.path), "lines": [asdict(each) for each in report.results]})
        return
    console.say(os.path.relpath(report.path))
    text = t("{done} of {total} lines have their file", done=done, total=len(report.results))
    console.tell(f"{text}, {report.charged} CNY" if report.charged else text)
