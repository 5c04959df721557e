"""Options that this package's commands share. Imports nothing of the service: `-h` must be quick."""

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

if TYPE_CHECKING:
    from tenuto.config import Settings


class ServiceLocation(Struct, frozen=True):
    """Where the service is: the options that every command of this package takes."""

    data: Path | None = None
    config: Path | None = None

    @property
    def again(self) -> str:
        """The options that make another command use the same service, each preceded by a space."""
        options = (("--data", self.data), ("--config", self.config))
        return "".join(f" {name} {shlex.quote(str(path))}" for name, path in options if path is not None)

    def settings(self, **options: Any) -> "Settings":
        """The settings for this command; SettingsInvalid names all that are wrong."""
        from tenuto import config

        return config.load(os.environ, file=self.config, options={"folder": self.data, **options})


def add_location(parser: Parser) -> None:
    """The options from which `location_of` makes a ServiceLocation."""
    group = parser.add_argument_group(t("service"))
    group.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help=t("the data folder (default: TENUTO_DATA, else ./tenuto-data)"),
    )
    group.add_argument(
        "--config", type=Path, metavar="FILE", help=t("a TOML file of settings (default: TENUTO_CONFIG)")
    )


def location_of(options: argparse.Namespace) -> ServiceLocation:
    """Where the service of a command is."""
    return ServiceLocation(options.data, options.config)


def add_entry(parser: Parser) -> None:
    """The option with which a command writes its ledger entry only once, however often it is run."""
    parser.add_argument(
        "--id",
        dest="entry",
        metavar="ENTRY",
        help=t("the id of the ledger line, to repeat a try of unknown outcome without booking twice"),
    )
