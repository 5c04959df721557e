"""The diary: a file beside the data folder, and the command that prints it."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenuto.api.answers import Answer, json_answer
from tenuto.api.call import Call, Routes
from tenuto.command.common import say
from tenuto.config import Settings
from tenuto.db.database import Database, Transaction
from tenuto.job.erasure import Erased
from tenuto.worker.duties import Duty
from tenuto.worker.watch import Watch
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser

from .settings import DiarySettings


def begin(settings: Settings, database: Database) -> None:
    """A service starts on this folder."""
    own = settings.of(DiarySettings)
    _write(f"begun {settings.folder.name} in {own.diary_ink} on {own.diary_pages}")


def routes(settings: Settings) -> Routes:
    """What callers read."""
    return {"/v1/diary": {"GET": _show}}


async def _show(call: Call) -> Answer:
    await call.authenticate()
    return json_answer(200, _file().read_text("utf-8").split("\n"))


def duties(watch: Watch) -> list[Duty]:
    """Done by every worker once an hour."""
    return [Duty("diary", lambda turn: _write("kept house"), every_s=3600.0)]


def observe(event: str, fields: Mapping[str, Any]) -> None:
    """What a process tells: this one fails behind what it was told last."""
    if event == "job.succeeded":
        _write(f"seen {fields['job_id']}")
        raise RuntimeError("the diary is torn")


def erase(tx: Transaction, erased: Erased) -> None:
    """The content of a job is erased."""
    assert tx.one("select 1 as one from job where id = :id", id=erased.job_id) is not None
    _write(f"erased {erased.job_id}")


def add(parser: Parser, name: str) -> None:
    """The command has no options."""
    parser.set_defaults(run=_print)


def _print(options: argparse.Namespace, console: Console) -> int:
    say(_file().read_text("utf-8").rstrip())
    return 0


def _write(line: str) -> None:
    with _file().open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _file() -> Path:
    return Path(os.environ["DIARY"])
