"""Output: results to stdout, the rest to stderr; a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto_client.commands import streams
from tenuto_client.commands.words import t, translated
from tenuto_client.errors import NotConfigured

if TYPE_CHECKING:
    from tenuto_client.drive import Driver
    from tenuto_client.exchange import Link, Retry
    from tenuto_client.records import Operation
    from tenuto_client.steps import Flow

T = TypeVar("T")

RETRIES = 2
"""Retries of a simple request; 3 seconds in total."""
KEY_HEAD = 6
"""How many characters are displayed at the start of a key; at its end, four."""
WORK_RETRIES = 5
"""Retries of a submission or a download; half a minute in total."""
LEAST_CUT = 20
"""The fewest terminal columns of a truncated title that still mean something."""
_NOT_ZERO = re.compile(r"-?[\d.]*[1-9]")
"""Matches the beginning of an amount that is not 0."""


class Console:
    """The output of one command, and its connection to the service."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.as_json: bool = getattr(options, "as_json", False)
        self.quiet: bool = getattr(options, "quiet", False)
        self.progress = Progress(self)
        self.retries = RETRIES

    @cached_property
    def link(self) -> Link:
        """The link to this command's service. Raises NotConfigured."""
        return self.link_to(getattr(self.options, "url", None))

    @cached_property
    def driver(self) -> Driver:
        from tenuto_client.drive import Driver

        return Driver(self.link)

    def link_to(self, base_url: str | None, api_key: str | None = None) -> Link:
        """A link to an address, with its key and the journal; without a key, offers the user's service."""
        from tenuto_client.commands import local

        try:
            return self._link_to(base_url, api_key)
        except NotConfigured as missing:
            local.offer(self, base_url, missing)
            return self._link_to(base_url, api_key)

    def _link_to(self, base_url: str | None, api_key: str | None) -> Link:
        from tenuto_client.session import link_to

        return link_to(
            api_key,
            base_url,
            timeout=60.0,
            max_retries=self.retries,
            journal=True,
            clock=None,
            on_retry=self._on_retry,
            traceparent=lambda: os.environ.get("TRACEPARENT"),
        )

    def run(self, flow: Flow[T]) -> T:
        """Run a flow and return its result."""
        return self.driver.run(flow)

    def _on_retry(self, retry: Retry) -> None:
        why = _reason(retry)
        if retry.is_last:
            text = "{why}; trying again in {seconds:.0f} s, for the last time"
        else:
            text = "{why}; trying again in {seconds:.0f} s, giving up in about {limit:.0f} s"
        self.progress.stage(t(text, why=why, seconds=retry.wait_s, limit=retry.gives_up_s))

    def say(self, text: str) -> None:
        """Print a line of the result on stdout."""
        streams.write(text + "\n")

    def tell(self, text: str) -> None:
        """Print a line for the user on stderr, unless `--quiet`."""
        if not self.quiet:
            self.progress.above(text)

    @property
    def can_ask(self) -> bool:
        """Whether a user at the terminal can answer."""
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty() and not self.quiet

    def confirm(self, question: str, *, default: bool = False) -> bool:
        """Ask a yes-or-no question; Return alone means the default, anything else but yes means no."""
        self.progress.clear()
        sys.stderr.write(f"{question} [{'Y/n' if default else 'y/N'}] ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        return answer.strip().lower() in ("y", "yes", "是") or (default and answer == "\n")

    def error(self, message: str, remedy: str | None = None) -> None:
        """Print one line with the error and what fixes it, even with `--quiet`."""
        advice = f" → {remedy}" if remedy else ""
        sys.stderr.write(f"tenuto: {' '.join(message.split())}{advice}\n")
        sys.stderr.flush()

    def document(self, value: Any) -> None:
        """Print JSON on stdout."""
        self.say(json.dumps(value, ensure_ascii=False, indent=None if _is_piped() else 2))

    def table(
        self,
        headings: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        amounts: Collection[str] = (),
        spared: Sequence[str] = (),
    ) -> None:
        """Print aligned columns with translated headings on a terminal, tab-separated lines elsewhere.

        `amounts` are headings of money: a terminal shows none of them that is 0 in all rows. With `spared`,
        no line is longer than the terminal: the last column is truncated, and these columns are left out, in
        this order, if too little of it would remain.
        """
        lines = [[_cell(cell) for cell in row] for row in rows]
        if _is_piped():
            for line in [list(headings), *lines]:
                self.say("\t".join(line))
            return
        shown = [
            number
            for number, heading in enumerate(headings)
            if heading not in amounts or any(_NOT_ZERO.match(line[number]) for line in lines)
        ]
        translated_lines = [[t(heading) for heading in headings], *lines]
        if spared:
            columns = shutil.get_terminal_size().columns
            shown = _fitting(headings, translated_lines, shown, spared, columns)
            used = _used(translated_lines, shown[:-1])
            for line in translated_lines:
                line[shown[-1]] = _cut(line[shown[-1]], columns - used)
        for number, text in enumerate(
            aligned([[line[column] for column in shown] for line in translated_lines])
        ):
            self.say(_bold(text) if number == 0 else text)


def _reason(retry: Retry) -> str:
    """Why a request is retried."""
    if retry.status is None:
        return t("no answer ({why})", why=translated(retry.reason))
    if retry.status == 403:
        return translated(retry.reason)
    if retry.status == 429:
        return t("the service limits the rate of requests")
    if retry.status == 503:
        return t("the service is not ready")
    return translated(f"the service answered {retry.status}")


def moment(at: int | None) -> str | None:
    """A Unix time as `2026-11-30 12:00:00`, UTC."""
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def masked(key: str) -> str:
    """A key as lists show it: recognisable to its owner, useless to others."""
    return f"{key[:KEY_HEAD]}…{key[-4:]}" if len(key) > 2 * KEY_HEAD else "…"


def _is_piped() -> bool:
    return not sys.stdout.isatty()


def _bold(text: str) -> str:
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def _cell(value: Any) -> str:
    return "-" if value is None or value == "" else " ".join(str(value).split())


class Progress:
    """The current stage and its progress. Drawn with rich, which is loaded on first use."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Any = None
        self._task: Any = None
        self._last_line = ""

    def stage(
        self, text: str, done: int | None = None, total: int | None = None, *, is_bytes: bool = False
    ) -> None:
        """Show a stage and how much of it is done."""
        if self._console.quiet:
            return
        if not sys.stderr.isatty():
            if text != self._last_line:
                self._last_line = text
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
            return
        bar = self._bar or self._start()
        amount = ""
        if total:
            amount = f"{(done or 0) / 1e6:.1f} / {total / 1e6:.1f} MB" if is_bytes else f"{done} / {total}"
        bar.update(self._task, description=text, completed=done or 0, total=total, amount=amount)

    def operation(self, operation: Operation) -> None:
        """Show the state of a job."""
        if operation.state == "running" and operation.progress is not None:
            now = operation.progress
            self.stage(f"{t('running')}: {t(now.stage)}", now.completed, now.total)
        elif operation.state == "queued" and operation.queue_position:
            self.stage(t("queued, {ahead} ahead", ahead=operation.queue_position))
        else:
            self.stage(t(operation.state))

    def bytes(self, text: str) -> Any:
        """A callback that shows how many bytes have been transferred."""
        return lambda done, total: self.stage(text, done, total, is_bytes=True)

    def above(self, text: str) -> None:
        """Print a permanent line above the progress bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the progress bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._last_line = ""

    def _start(self) -> Any:
        from rich.console import Console as Terminal
        from rich.progress import (
            BarColumn,
            SpinnerColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar
        from rich.text import Text

        class TimeLeft(TimeRemainingColumn):
            """The time left; empty if it is unknown or the work is done."""

            def render(self, task: Task) -> Text:
                if task.finished or task.total is None or task.time_remaining is None:
                    return Text()
                return Text.assemble(t("left:"), " ", super().render(task))

        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            TimeLeft(),
            console=Terminal(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, amount="")
        self._bar.start()
        return self._bar


def aligned(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Each line with its cells padded to the width of their column; all lines have equally many cells."""
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _fitting(
    headings: Sequence[str],
    lines: Sequence[Sequence[str]],
    shown: Sequence[int],
    spared: Sequence[str],
    columns: int,
) -> list[int]:
    """The columns to show, so that the last one has some room, or all that it needs."""
    left = list(shown)
    needed = min(LEAST_CUT, max(_width(line[shown[-1]]) for line in lines))
    for heading in spared:
        number = headings.index(heading)
        if columns - _used(lines, left[:-1]) < needed and number in left:
            left.remove(number)
    return left


def _used(lines: Sequence[Sequence[str]], columns: Sequence[int]) -> int:
    """The width of these columns, including the space after each."""
    return sum(2 + max(_width(line[number]) for line in lines) for number in columns)


def _cut(text: str, width: int) -> str:
    """The text, truncated with an ellipsis if it does not fit."""
    if _width(text) <= width:
        return text
    kept = text
    while kept and _width(kept) > max(0, width - 1):
        kept = kept[:-1]
    return kept.rstrip() + "…"


def _width(text: str) -> int:
    """The width on a terminal: a Chinese character takes two columns, a combining accent none."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )
