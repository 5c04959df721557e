"""`tenuto models pull`: bring weights into the cache, with a bar for each on a terminal."""

import argparse
import sys
from typing import Any

from tenuto.cli.options import add_place, place_of
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=t("models or weights (default: all that the enabled models need)"),
    )
    add_place(parser)
    parser.set_defaults(run=_pull)


def _pull(options: argparse.Namespace, console: Console) -> int:
    """Bring weights into the cache and verify them; what is there already stays."""
    from tenuto.cli.common import say
    from tenuto.cli.models import needed_weights
    from tenuto.weights.pull import pull

    settings = place_of(options).settings()
    wanted = needed_weights(options.names, settings)
    with _Progress() as progress:
        places = pull(wanted, settings.cache, progress.on_progress)
    for where in places:
        say(str(where))
    return 0


class _Progress:
    """A bar per weight on a terminal, a line per stage elsewhere."""

    def __init__(self) -> None:
        self._bars: Any = None
        self._tasks: dict[str, Any] = {}
        self._told: set[tuple[str, str]] = set()

    def __enter__(self) -> "_Progress":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

            self._bars = Progress(
                TextColumn("{task.description:24}"),
                BarColumn(),
                DownloadColumn(),
                TextColumn("{task.fields[stage]}"),
                console=Console(stderr=True),
            )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def on_progress(self, name: str, done_bytes: int, total_bytes: int, stage: str) -> None:
        """Called by the pull, one thread at a time."""
        if self._bars is None:
            if (name, stage) not in self._told:
                self._told.add((name, stage))
                sys.stderr.write(f"{name}: {stage} ({total_bytes / 1e6:.1f} MB)\n")
                sys.stderr.flush()
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total_bytes, stage=stage)
        self._bars.update(self._tasks[name], completed=done_bytes, total=total_bytes, stage=stage)
