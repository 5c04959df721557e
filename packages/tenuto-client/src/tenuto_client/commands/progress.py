"""How far the work is: one moving line on a terminal, elsewhere a line for each new stage."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tenuto_client.commands.words import t

if TYPE_CHECKING:
    from tenuto_client.commands.console import Console
    from tenuto_client.records import Operation


class Progress:
    """What is going on now. rich draws it, and is loaded when there is something to draw."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Any = None
        self._task: Any = None
        self._told = ""

    def stage(
        self, text: str, done: int | None = None, total: int | None = None, *, is_bytes: bool = False
    ) -> None:
        """The stage, and how much of it is done."""
        if self._console.quiet:
            return
        if not sys.stderr.isatty():
            if text != self._told:
                self._told = text
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
            return
        bar = self._bar or self._start()
        amount = ""
        if total:
            amount = f"{(done or 0) / 1e6:.1f} / {total / 1e6:.1f} MB" if is_bytes else f"{done} / {total}"
        bar.update(self._task, description=text, completed=done or 0, total=total, amount=amount)

    def operation(self, operation: Operation) -> None:
        """Where a job stands."""
        if operation.state == "running" and operation.progress is not None:
            now = operation.progress
            self.stage(f"{t('running')}: {t(now.stage)}", now.completed, now.total)
        elif operation.state == "queued" and operation.queue_position:
            self.stage(t("queued, {ahead} ahead", ahead=operation.queue_position))
        else:
            self.stage(t(operation.state))

    def bytes(self, text: str) -> Any:
        """A callback for bytes that pass."""
        return lambda done, total: self.stage(text, done, total, is_bytes=True)

    def above(self, text: str) -> None:
        """A line that stays, above what moves."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    def clear(self) -> None:
        """The moving line goes."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._told = ""

    def _start(self) -> Any:
        from rich.console import Console as Terminal
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            console=Terminal(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, amount="")
        self._bar.start()
        return self._bar
