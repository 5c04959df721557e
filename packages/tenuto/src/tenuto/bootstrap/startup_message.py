"""What a service that is ready says at the terminal: where it answers, and how its first account is made."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from tenuto.bootstrap.opening import is_first_run
from tenuto.bootstrap.process import Say, clock
from tenuto.config import Settings
from tenuto.db.database import Database
from tenuto.web.invitations import set_up_link


def announce(settings: Settings, database: Database, address: str, say: Say) -> None:
    """Say it, line by line."""
    say(f"Tenuto answers at http://{address}, its data is in {settings.folder.resolve()}")
    if (link := set_up_link(settings, database, address, now_ms=clock())) is not None:
        say(
            "To set up the studio, open this link; it creates the operator account, works once,"
            " and expires in 24 hours:"
        )
        say(f"  {link}")
    if is_first_run(database):
        command, data = _command(), shlex.quote(str(settings.folder.resolve()))
        # Where the records are elsewhere, the data folder alone does not lead there.
        same = "" if settings.database.startswith("sqlite:") else " with the same settings"
        say(f"There is no account yet. For the API alone, in another terminal{same}:")
        say(f"  {command} admin accounts create me --data {data}")
        say(f"  {command} admin keys create --account me --data {data}")


def address_of(addresses: list[Any]) -> str:
    """The first address of a listening server, as it stands in a URL."""
    host, port = addresses[0]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _command() -> str:
    """How a person calls us: by name when that finds us, else by the path of this installation."""
    installed = Path(sys.executable).with_name("tenuto")
    return "tenuto" if shutil.which("tenuto") == str(installed) else shlex.quote(str(installed))
