"""A host's process from start to end: greet, load the engine, serve runs, end with the parent.

It does not know which engines there are, nor what a run is for.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import os
import platform
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tenuto_host import wire
from tenuto_host.engine import Engine
from tenuto_host.runs import Channel, HostedRun, carry_out, failure

# After the parent's last word an idle engine may end in order (atexit, temporary files) for so long.
FAREWELL_S = 0.5

_PR_SET_PDEATHSIG = 1

# What the parent asks for: first to load (a header), then runs; None says that nothing more comes.
Inbox = queue.SimpleQueue


def main(arguments: list[str]) -> None:
    """Serve until the parent closes the connection. Never returns while a run is under way."""
    options = _options(arguments)
    end_with(options.parent)
    faulthandler.enable()
    os.set_inheritable(options.fd, False)
    connection = socket.socket(fileno=options.fd)
    channel = Channel(connection)
    inbox: Inbox[Any] = queue.SimpleQueue()
    channel.send({"type": "hello", "protocol": wire.PROTOCOL, "python": _python(), "pid": os.getpid()})
    threading.Thread(target=_listen, args=(connection, channel, inbox), name="listen", daemon=True).start()
    try:
        greeting = inbox.get()
        if greeting is not None:
            _serve(_load(options, greeting, channel), inbox)
    finally:
        # The connection ends with the process, not before: its end says that there is an exit status.
        connection.detach()


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tenuto_host")
    parser.add_argument("engine")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    # Neither: the engine is a package that this interpreter finds by itself.
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--package", default="", help="a folder taken as a package, not on the path")
    place.add_argument("--path", default="", help="a folder to put first on the path")
    return parser.parse_args(arguments)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even while an engine holds the GIL (Linux)."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _listen(connection: socket.socket, channel: Channel, inbox: Inbox[Any]) -> None:
    """Sort what the parent says. Its silence (the end of the stream) ends this process."""
    try:
        message = wire.read_message(connection)
        while message is not None:
            _take(*message, channel, inbox)
            message = wire.read_message(connection)
    except Exception:
        traceback.print_exc()
    inbox.put(None)
    time.sleep(FAREWELL_S)
    os._exit(0)


def _take(header: dict[str, Any], body: bytes, channel: Channel, inbox: Inbox[Any]) -> None:
    if header["type"] == "run":
        inbox.put(channel.open(header, body))
    elif header["type"] == "cancel":
        channel.cancel(header["run_id"])
    elif header["type"] == "health":
        channel.send({"type": "health", "info": {"pid": os.getpid(), "running": channel.running()}})
    else:
        inbox.put(header)


def _load(options: argparse.Namespace, greeting: dict[str, Any], channel: Channel) -> Engine:
    try:
        engine = _find(options)(greeting["options"])
        info = {**getattr(engine, "info", {}), "concurrency": _concurrency(engine)}
        channel.send({"type": "loaded", "info": {**info, "pid": os.getpid(), "python": _python()}})
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        channel.send(failure(error))
        os._exit(1)
    return engine


def _find(options: argparse.Namespace) -> Callable[[dict[str, Any]], Engine]:
    """Import the engine's class: one of a package of our own making, or one found on the path."""
    module, _, name = options.engine.partition(":")
    if options.package:
        package = ModuleType("tenuto_engines")
        package.__path__ = [options.package]
        sys.modules["tenuto_engines"] = package
        module = f"tenuto_engines.{module}"
    elif options.path:
        sys.path.insert(0, options.path)
    found: Callable[[dict[str, Any]], Engine] = getattr(importlib.import_module(module), name)
    return found


def _concurrency(engine: Engine) -> int:
    return max(1, int(getattr(engine, "concurrency", 1)))


def _serve(engine: Engine, inbox: Inbox[Any]) -> None:
    for _ in range(_concurrency(engine) - 1):
        threading.Thread(target=_serve_one, args=(engine, inbox), daemon=True).start()
    _serve_one(engine, inbox)


def _serve_one(engine: Engine, inbox: Inbox[Any]) -> None:
    while True:
        run = inbox.get()
        if not isinstance(run, HostedRun):
            inbox.put(None)
            return
        carry_out(engine, run)


def _python() -> str:
    return platform.python_version()
