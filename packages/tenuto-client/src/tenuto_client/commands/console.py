"""Where words go: data to stdout, all else to stderr; progress on a terminal, plain lines elsewhere."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tenuto_client.commands import streams
from tenuto_client.commands.progress import Progress
from tenuto_client.commands.tables import aligned
from tenuto_client.commands.words import retold, t

if TYPE_CHECKING:
    from tenuto_client.drive import Driver
    from tenuto_client.exchange import Link, Retry
    from tenuto_client.steps import Flow

T = TypeVar("T")

RETRIES = 2
"""How often a question is asked again; 3 seconds in all."""
WORK_RETRIES = 5
"""How often what makes or brings a result is sent again; half a minute in all."""


class Console:
    """The streams of one command, and the service it talks to."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.as_json: bool = getattr(options, "as_json", False)
        self.quiet: bool = getattr(options, "quiet", False)
        self.progress = Progress(self)
        self.retries = RETRIES

    @cached_property
    def link(self) -> Link:
        """The service of this command. Raises NotConfigured."""
        return self.link_to(getattr(self.options, "url", None))

    @cached_property
    def driver(self) -> Driver:
        from tenuto_client.drive import Driver

        return Driver(self.link)

    def link_to(self, base_url: str | None, api_key: str | None = None) -> Link:
        """A link to an address, with its key and the journal."""
        from tenuto_client.links import link_to

        return link_to(
            api_key,
            base_url,
            timeout=60.0,
            max_retries=self.retries,
            journal=True,
            clock=None,
            on_retry=self._on_retry,
        )

    def run(self, flow: Flow[T]) -> T:
        """What a flow gives."""
        return self.driver.run(flow)

    def _on_retry(self, retry: Retry) -> None:
        why = _reason(retry)
        if retry.is_last:
            text = "{why}; trying again in {seconds:.0f} s, for the last time"
        else:
            text = "{why}; trying again in {seconds:.0f} s, giving up in about {limit:.0f} s"
        self.progress.stage(t(text, why=why, seconds=retry.wait_s, limit=retry.gives_up_s))

    def say(self, text: str) -> None:
        """A line of result."""
        streams.write(text + "\n")

    def tell(self, text: str) -> None:
        """A line for the person, not for the script."""
        if not self.quiet:
            self.progress.above(text)

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty() and not self.quiet

    def confirm(self, question: str) -> bool:
        """Ask a person; anything but yes is no."""
        self.progress.clear()
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes", "是")

    def error(self, message: str, remedy: str | None = None) -> None:
        """One line that says what is wrong, and what mends it. It is told to the quiet, too."""
        mended = f" → {remedy}" if remedy else ""
        sys.stderr.write(f"tenuto: {' '.join(message.split())}{mended}\n")
        sys.stderr.flush()

    def document(self, value: Any) -> None:
        """JSON on stdout."""
        self.say(json.dumps(value, ensure_ascii=False, indent=None if _is_piped() else 2))

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Columns for people; tabs, with the same headings, for scripts."""
        lines = [[_cell(cell) for cell in row] for row in rows]
        if _is_piped():
            for line in [list(headings), *lines]:
                self.say("\t".join(line))
            return
        shown = [[t(heading) for heading in headings], *lines]
        for number, text in enumerate(aligned(shown)):
            self.say(_bold(text) if number == 0 else text)


def _reason(retry: Retry) -> str:
    """Why a request is sent again."""
    if retry.status is None:
        return t("no answer ({why})", why=retold(retry.reason))
    if retry.status == 429:
        return t("the service limits the rate of requests")
    if retry.status == 503:
        return t("the service is not ready")
    return retold(f"the service answered {retry.status}")


def _is_piped() -> bool:
    return not sys.stdout.isatty()


def _bold(text: str) -> str:
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def _cell(value: Any) -> str:
    return "-" if value is None or value == "" else " ".join(str(value).split())
