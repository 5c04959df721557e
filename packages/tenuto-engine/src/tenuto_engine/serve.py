"""A host's process: greets the parent, loads the engine, serves runs and exits with the parent."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import importlib.abc
import importlib.util
import os
import platform
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tenuto_engine import network, wire
from tenuto_engine.engine import Engine
from tenuto_engine.inbox import Inbox
from tenuto_engine.runs import Channel, HostedRun, carry_out, failure

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Serve until the parent closes the connection. Does not return during a run."""
    options = _options(arguments)
    end_with(options.parent)
    faulthandler.enable()
    network.silence(os.environ, has_network=options.network)
    reach = network.ALLOWED if options.network else network.close()
    os.set_inheritable(options.fd, False)
    connection = socket.socket(fileno=options.fd)
    channel = Channel(connection)
    channel.send({"type": "hello", "protocol": wire.PROTOCOL, "python": _python(), "pid": os.getpid()})
    inbox = Inbox(connection, channel)
    try:
        greeting = inbox.get()
        if greeting is not None:
            _serve(_load(options, greeting, channel, reach), inbox)
    finally:
        # The connection closes with the process, not before: its end tells the parent that there is an exit
        # status.
        connection.detach()


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tenuto_engine")
    parser.add_argument("engine")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--network", action="store_true", help="it calls a server: let it open sockets")
    # With neither, the engine is a package installed for this interpreter.
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--package", default="", help="a folder to import as a package, without putting it on the path"
    )
    place.add_argument("--path", default="", help="a folder to put first on the path")
    parser.add_argument(
        "--with", action="append", default=[], help="NAME=FOLDER: a package to import from this folder"
    )
    return parser.parse_args(arguments)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even while an engine holds the GIL (Linux)."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _load(options: argparse.Namespace, greeting: dict[str, Any], channel: Channel, reach: str) -> Engine:
    try:
        engine = _find(options)(greeting["options"])
        info = {**getattr(engine, "info", {}), "concurrency": _concurrency(engine)}
        info |= {"pid": os.getpid(), "python": _python(), "network": reach}
        channel.send({"type": "loaded", "info": info})
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        channel.send(failure(error))
        os._exit(1)
    return engine


def _find(options: argparse.Namespace) -> Callable[[dict[str, Any]], Engine]:
    """Import the engine's class, from the given package or from the path."""
    module, _, name = options.engine.partition(":")
    # First on the path, so that the code has the same version as the manifest that the service has read.
    sys.meta_path.insert(0, SuppliedPackages(dict(text.split("=", 1) for text in getattr(options, "with"))))
    if options.package:
        package = ModuleType("tenuto_engines")
        package.__path__ = [options.package]
        sys.modules["tenuto_engines"] = package
        module = f"tenuto_engines.{module}"
    elif options.path:
        sys.path.insert(0, options.path)
    engine: Callable[[dict[str, Any]], Engine] = getattr(importlib.import_module(module), name)
    return engine


class SuppliedPackages(importlib.abc.MetaPathFinder):
    """Imports the packages that the service supplies, so that the interpreter need not have them installed.

    It uses only their own folders: the libraries next to them may be for another interpreter.
    """

    def __init__(self, folders: dict[str, str]) -> None:
        self._folders = folders

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The package of this name, if it is supplied."""
        folder = self._folders.get(fullname)
        if folder is None:
            return None
        file = os.path.join(folder, "__init__.py")  # noqa: PTH118, as in __main__
        return importlib.util.spec_from_file_location(fullname, file, submodule_search_locations=[folder])


def _concurrency(engine: Engine) -> int:
    return max(1, int(getattr(engine, "concurrency", 1)))


def _serve(engine: Engine, inbox: Inbox) -> None:
    for _ in range(_concurrency(engine) - 1):
        threading.Thread(target=_serve_from, args=(inbox, engine), daemon=True).start()
    _serve_from(inbox, engine)


def _serve_from(inbox: Inbox, engine: Engine) -> None:
    while isinstance(run := inbox.get(), HostedRun):
        carry_out(engine, run)


def _python() -> str:
    return platform.python_version()
