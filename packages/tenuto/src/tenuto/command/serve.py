"""`tenuto serve`, `tenuto api` and `tenuto worker`: the processes of a service."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import asdict

from tenuto.command.common import json_line, model_names, say, table
from tenuto.command.options import add_location, location_of
from tenuto.errors import OperatorError
from tenuto_client.commands import streams
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

if TYPE_CHECKING:
    from tenuto.config import Settings
    from tenuto.worker.abilities import Ability

T = TypeVar("T")


def add(parser: Parser, name: str) -> None:
    """The options of one of the three commands."""
    if name == "worker":
        parser.add_argument(
            "--models", metavar="A,B", help=t("run only these models, comma-separated (default: all)")
        )
        parser.add_json()
    else:
        parser.add_argument("--host", metavar="ADDRESS", help=t("listen on this address"))
        parser.add_argument(
            "--port", type=int, metavar="N", help=t("listen on this port; 0 picks a free one")
        )
    if name == "serve":
        parser.add_argument(
            "--engines", choices=("real", "fake"), help=t("real engines, or fake ones for tests and trials")
        )
        parser.add_argument(
            "--pull",
            choices=("missing", "never"),
            help=t("download missing weights before starting (default), or never download"),
        )
    parser.add_argument(
        "--log-format",
        choices=("auto", "text", "json"),
        help=t("log lines for people, or JSON (default: text on a terminal, else JSON)"),
    )
    parser.set_defaults(run={"serve": _serve, "api": _api, "worker": _worker}[name])
    add_location(parser)


def _serve(options: argparse.Namespace, console: Console) -> int:
    """Run the API, and a worker with its engines."""
    from tenuto.process.runtime import keep_private
    from tenuto.worker.serve_child import WORKER, Child

    named = {name: getattr(options, name) for name in ("host", "port", "engines", "pull")}
    settings = _settings(options, **named)
    keep_private()
    worker = Child(settings, WORKER)
    # It loads its modules while we load ours and check everything that may prevent the start.
    worker.prepare()

    from tenuto.process.serve import run_serve

    run_serve(settings, worker, _surviving(say))
    return 0


def _api(options: argparse.Namespace, console: Console) -> int:
    """Run only the API; workers run elsewhere."""
    from tenuto.process.api import run_api

    run_api(_settings(options, host=options.host, port=options.port), _surviving(say))
    return 0


def _worker(options: argparse.Namespace, console: Console) -> int:
    """Run only a worker; it first reports what it can run, and why it cannot run the rest."""
    from tenuto.process.worker import run_worker

    settings = _settings(options)
    tell = _surviving(teller(settings, as_json=options.as_json))
    run_worker(settings, model_names(options.models, settings), tell=tell)
    return 0


def _settings(options: argparse.Namespace, **named: Any) -> "Settings":
    """The settings of a service process; sets up the logs as they say."""
    from tenuto.logs import set_up_logs

    settings = location_of(options).settings(**named, log_format=options.log_format)
    set_up_logs(settings.log_level, settings.log_format)
    return settings


def _surviving(tell: Callable[[T], None]) -> Callable[[T], None]:
    """The same for a service, which starts even if its output is on a full disk or has no reader."""
    from tenuto.process.runtime import log

    def attempt(what: T) -> None:
        try:
            tell(what)
        except (OperatorError, SystemExit) as error:
            streams.leave()
            reason = error.message if isinstance(error, OperatorError) else "stdout: Broken pipe"
            log().warning("output.not_written", reason=reason)

    return attempt


def teller(settings: "Settings", *, as_json: bool) -> "Callable[[Sequence[Ability]], None]":
    """A function that reports a worker's abilities, as a table or one line of JSON."""

    def tell(abilities: "Sequence[Ability]") -> None:
        if as_json:
            models = [asdict(ability) for ability in abilities]
            say(json_line({"engine_memory_mib": settings.engine_memory_mib, "models": models}))
            return
        table(
            ("model", "lane", "slots", "host", "MiB", "runs here"),
            (
                (
                    ability.model,
                    ability.lane,
                    ability.slots,
                    ability.host,
                    ability.memory_mib or "?",
                    "yes" if ability.reason is None else f"no: {ability.reason}",
                )
                for ability in abilities
            ),
        )
        if settings.engine_memory_mib:
            say(f"engines may take {settings.engine_memory_mib} MiB together")

    return tell
