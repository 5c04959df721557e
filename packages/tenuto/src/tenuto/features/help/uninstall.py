"""`tenuto uninstall`: shows where Tenuto keeps things on this machine, and removes what is asked for.

Only what Tenuto has made is removed, by its name: anything else in the same folders stays, and is named.
What root has installed by hand (docs/operations/systemd.md) is listed, not removed; so is what a library has
left for itself.
"""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tenuto.command.common import json_line, readable_size, say, tell
from tenuto.command.options import ServiceLocation
from tenuto.errors import OperatorError
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

if TYPE_CHECKING:
    from tenuto.config import Settings

HERE = Path()
"""`--data` without a folder: the one in the settings."""
DATABASE_FILES = ("-journal", "-shm", "-wal", ".lock", ".turn", "")
DATA_NAMES = ("blobs", "locks", "models", "rescued", "wake", "restore.unfinished")
"""What a data folder holds besides its database and the lock of `serve`, which mark it and so go last."""
CACHE_NAMES = (".compiled", ".partial", ".verified", ".lock")
LIBRARIES = ("Microsoft/DeveloperTools/.onnxruntime",)
"""What libraries of engines have left in the user's cache, for all programs that use them: ONNX Runtime an
identity of the machine and reports, before we had it report nothing."""
BY_ROOT = (
    "etc/systemd/system/tenuto-*.service",
    "etc/sysusers.d/tenuto.conf",
    *("etc/tenuto", "var/lib/tenuto", "var/cache/tenuto"),
)


class Belonging(Struct, frozen=True):
    """Something of Tenuto's that is removed or kept as a whole."""

    what: str
    path: Path
    entries: Sequence[Path]
    """What is removed; `path` too, unless something else is in it."""
    option: str | None
    """The option that removes it, besides `--all`; None: we do not remove it."""

    @property
    def size_bytes(self) -> int:
        return sum(map(_size, self.entries))


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument(
        "--data",
        type=Path,
        nargs="?",
        const=HERE,
        metavar="FOLDER",
        help=t("remove the data folder: accounts, jobs, results and money (default: as for `tenuto serve`)"),
    )
    parser.add_argument("--cache", action="store_true", help=t("remove the downloaded weights"))
    parser.add_argument(
        "--all",
        action="store_true",
        dest="everything",
        help=t("remove both, and saved logins, the journal and completion scripts"),
    )
    parser.add_argument("--yes", action="store_true", help=t("remove without asking"))
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=t("a TOML file of settings (default: TENUTO_CONFIG)")
    )
    parser.add_json()
    parser.set_defaults(run=_uninstall)


def _uninstall(options: argparse.Namespace, console: Console) -> int:
    """List what is there, or remove what is asked for, after a confirmation."""
    data = None if options.data in (None, HERE) else options.data
    settings = ServiceLocation(data, options.config).settings()
    found = [*belongings(settings), *of_root(Path("/"))]
    wanted = [each for each in found if each.option is not None and _is_wanted(each, options)]
    if not wanted:
        _list(found, settings, console)
        return 0
    _refuse_in_use(settings, wanted)
    if not options.yes:
        _ask(wanted, console)
    from tenuto.worker.locks import FolderLock

    folder = settings.folder.resolve()
    # No service may start on a folder that is being removed.
    lock = FolderLock(folder) if folder in [each.path for each in wanted] else None
    try:
        for each in wanted:
            _remove(each)
    finally:
        if lock is not None:
            lock.release()
    for each in found:
        if each.option is None:
            tell(t("not removed: {path}", path=each.path))
    tell(t("The program itself is removed with: {command}", command=_how_installed()))
    return 0


def belongings(settings: "Settings") -> Iterator[Belonging]:
    """What this user has of Tenuto: data, weights, logins, journal, notes of services, completion scripts."""
    from tenuto_client import settings as client
    from tenuto_client.commands import completion
    from tenuto_client.journal import SUFFIX

    folder, cache = settings.folder.resolve(), settings.cache.resolve()
    if entries := _data(settings, folder):
        yield Belonging("data", folder, entries, "--data")
    if entries := _there(cache, (*_weights(cache), *CACHE_NAMES)):
        yield Belonging("weights", cache, entries, "--cache")
    login = client.credentials_file()
    if login.is_file():
        yield Belonging("logins", login.parent, [login], "--all")
    journal = client.journal_folder()
    if entries := sorted(journal.glob(f"*{SUFFIX}*")):
        yield Belonging("journal", journal, entries, "--all")
    notes = client.journal_folder({**os.environ, client.JOURNAL: ""}).with_name("services")
    if entries := sorted(notes.glob("*.json")):
        yield Belonging("notes of services", notes, entries, "--all")
    for shell in completion.SHELLS:
        if (script := completion.script_file(shell)).is_file():
            yield Belonging("completion", script.parent, [script], "--all")
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for left in _there(cached, LIBRARIES):
        yield Belonging("left by a library", left, [left], None)


def of_root(root: Path) -> Iterator[Belonging]:
    """What was installed for the whole machine by following the documentation."""
    for pattern in BY_ROOT:
        for path in sorted(root.glob(pattern)):
            yield Belonging("installed by root", path, [path], None)


def _is_wanted(each: Belonging, options: argparse.Namespace) -> bool:
    asked = {"--data": options.data is not None, "--cache": options.cache, "--all": False}
    return bool(options.everything or asked[str(each.option)])


def _data(settings: "Settings", folder: Path) -> list[Path]:
    """What is ours in the data folder; nothing if no database, store or lock marks it as a data folder."""
    from tenuto.worker.locks import SERVE_LOCK

    file = settings.database.removeprefix("sqlite:///")
    database = folder / file if file != settings.database else None
    marks = [folder / "blobs" / "store.json", folder / "restore.unfinished", folder / SERVE_LOCK, database]
    if not any(mark is not None and mark.is_file() for mark in marks):
        return []
    files = [database.with_name(database.name + end) for end in DATABASE_FILES] if database else []
    # The removal itself takes the lock of `serve`, which creates its file.
    return [*_there(folder, DATA_NAMES), *(path for path in files if path.exists()), folder / SERVE_LOCK]


def _weights(cache: Path) -> set[str]:
    """The names of all weights: those of this version and those that were verified here before."""
    from tenuto.features.models.manifest import shipped

    return {*shipped().weights, *(note.stem for note in (cache / ".verified").glob("*.json"))}


def _there(folder: Path, names: Sequence[str]) -> list[Path]:
    return [path for name in sorted(names) if os.path.lexists(path := folder / name)]


def _size(path: Path) -> int:
    """Size in bytes, without following links; what cannot be read counts as 0."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            return sum(map(_size, path.iterdir()))
        return path.lstat().st_size
    return 0


def _list(found: Sequence[Belonging], settings: "Settings", console: Console) -> None:
    from tenuto.process.local_services import noted_folders

    if console.as_json:
        plain = [
            {"what": e.what, "path": str(e.path), "size_bytes": e.size_bytes, "option": e.option}
            for e in found
        ]
        say(json_line(plain))
        return
    rows = [
        (t(each.what), each.path, readable_size(each.size_bytes), each.option or t("by hand"))
        for each in found
    ]
    console.table(("what", "where", "size", "remove with"), rows)
    for folder in noted_folders():
        if folder != settings.folder.resolve() and folder.is_dir():
            tell(t("another data folder: {folder}", folder=folder))
    for place in _elsewhere(settings):
        tell(t("not on this machine's disk, and never removed: {place}", place=place))
    tell(t("Nothing was removed. The program itself is removed with: {command}", command=_how_installed()))


def _elsewhere(settings: "Settings") -> Iterator[str]:
    if not settings.database.startswith("sqlite:"):
        yield t("the records, in PostgreSQL")
    if settings.blobs.startswith("s3:"):
        yield t("the bytes, in {bucket}", bucket=settings.blobs)


def _refuse_in_use(settings: "Settings", wanted: Sequence[Belonging]) -> None:
    """OperatorError if a service is running, which would lose accepted work or its engines' weights."""
    from tenuto.process.local_services import live_services
    from tenuto.worker.locks import SERVE_LOCK, is_held

    options = {each.option for each in wanted}
    folder, cache = settings.folder.resolve(), settings.cache.resolve()
    used = [service.folder for service in live_services()] if "--cache" in options else []
    if "--data" in options:
        names = [SERVE_LOCK, *(f"locks/{lock.name}" for lock in (folder / "locks").glob("*.lock"))]
        used += [str(folder) for name in names if is_held(folder, name)]
    if used:
        raise OperatorError(
            t("a service is running on {folder}; stop it first. Nothing was removed", folder=used[0])
        )
    if "--cache" in options and is_held(cache, CACHE_NAMES[-1]):
        raise OperatorError(t("weights are being downloaded to {folder}; nothing was removed", folder=cache))


def _ask(wanted: Sequence[Belonging], console: Console) -> None:
    """OperatorError unless the user confirms."""
    for each in wanted:
        tell(f"{t(each.what)}  {each.path}  {readable_size(each.size_bytes)}")
    if any(each.option == "--data" for each in wanted):
        tell(t("Accounts, jobs, results and money go with the data; `tenuto admin backup DIR` keeps a copy."))
    if not console.can_ask:
        raise OperatorError(t("nothing was removed: nobody is here to say yes; add --yes"))
    if not console.confirm(t("Remove this for good?")):
        raise OperatorError(t("nothing was removed"))


def _remove(belonging: Belonging) -> None:
    """Remove it, as far as it is ours; anything else in its folder stays and is named."""
    size = readable_size(belonging.size_bytes)
    for entry in belonging.entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    say(t("removed: {path} ({size})", path=belonging.path, size=size))
    if belonging.what == "completion":
        return  # The folder belongs to the shell.
    if others := sorted(path.name for path in belonging.path.iterdir()):
        tell(
            t("left in {path}, for it is not Tenuto's: {names}", path=belonging.path, names=", ".join(others))
        )
        return
    belonging.path.rmdir()


def _how_installed() -> str:
    """The command that removes the program, depending on where it runs from."""
    prefix = Path(sys.prefix)
    if "tools" in prefix.parts and "uv" in prefix.parts:
        return "uv tool uninstall tenuto"
    if "pipx" in prefix.parts:
        return "pipx uninstall tenuto"
    if prefix.name.startswith(".venv") and (prefix.parent / "pyproject.toml").is_file():
        return f"rm -r {shlex.quote(str(prefix))}"
    return f"{shlex.quote(sys.executable)} -m pip uninstall tenuto tenuto-client tenuto-engine"
