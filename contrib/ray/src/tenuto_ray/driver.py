"""The driver of an engine in a Ray pool: a child process of the worker, which treats it like any other host.

It creates an actor for the engine (`actor.py`) and then carries messages both ways. It is a separate process
because Ray's calls may block without end while the pool's head is away, and because Ray then ends the process
that made them. It does not know what a run means, only which messages are answered.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import Any

from tenuto_engine import wire
from tenuto_engine.serve import end_with
from tenuto_ray import actor

# For the head to answer and to let us in.
CONNECT_S = 40.0
# How long before the worker stops waiting we report why nothing was loaded.
AHEAD_S = 0.5
# For the actor to end the engine, before the worker ends us.
END_S = 0.9
# How often the main thread looks at the time: while the engine is loaded, and after it was.
LOOK_S = 0.1
LOADED_S = 3600.0
# Pieces of a long message that are on their way at once.
WINDOW = 4

_LENGTHS = struct.Struct("!II")
_ANSWERED = ("run", "health")
_ANSWERS = ("result", "failed", "cancelled", "unknown", "health")


class Refused(Exception):
    """The pool has no capacity for the engine, or it did not load there; the text is for the operator."""


class Driver:
    """The connection to the worker, the actor, and the messages between them."""

    def __init__(self, connection: socket.socket) -> None:
        self._worker = connection
        self._ray: Any = None
        self._actor: Any = None
        # What we wait for until the engine is loaded, and until when; reported when that moment passes.
        self._stage = ("", float("inf"))
        # When the load as a whole is given up.
        self._latest = float("inf")
        self._is_loaded = False
        self._state = threading.Lock()
        # Pieces sent to the actor so far: each has a number.
        self._number = 0
        # The engine's node; added to what the engine reports of itself.
        self._node = ""
        # Messages that the engine has yet to answer: while there are any, one call waits for what it says.
        self._owed = 0
        self._reading = False
        # Calls that wait, for the thread that carries back.
        self._calls: SimpleQueue[Any] = SimpleQueue()
        # Set when the engine has sent its last message.
        self._silent = threading.Event()

    def watch(self) -> None:
        """Run in the main thread: exit on a signal, or if a stage of the load takes too long."""
        while time.monotonic() < self._stage[1]:
            if signal.sigtimedwait({signal.SIGTERM}, LOADED_S if self._is_loaded else LOOK_S) is not None:
                self._end_engine(in_order=False)
                os.kill(os.getpid(), signal.SIGKILL)
        self._refuse(self._stage[0])

    def serve(self) -> None:
        """Load the engine on the worker's request, then pass messages until either end is gone."""
        self._say({"type": "hello", "protocol": wire.PROTOCOL, "python": sys.version.split()[0]})
        try:
            request = wire.read_message(self._worker)
            if request is None:
                os._exit(0)
            plan = request[0].pop("ray")
            self._join(plan)
            self._start(plan)
            self._load(request[0])
        except Refused as refused:
            self._refuse(str(refused))
        except Exception as error:
            self._refuse(_cause(error))
        for work in (self._carry_back, self._outlive):
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__, daemon=True).start()
        self._guarded(self._carry_out)

    def _join(self, plan: dict[str, Any]) -> None:
        address, left_s = plan["address"], plan["left_s"]
        self._latest = time.monotonic() + left_s - min(AHEAD_S, left_s / 2)
        limit_s = min(CONNECT_S, plan["timeout_s"])
        self._until(
            f"the Ray pool at {address} did not answer in {limit_s:g} s: its head must run, and this machine "
            f"must be one of its nodes (ray start --address={address})",
            limit_s,
        )
        import ray

        self._ray = ray
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            raise Refused(f"cannot join the Ray pool at {address}: {_cause(error)}") from error

    def _start(self, plan: dict[str, Any]) -> None:
        cpus, gpus, wait_s = plan["cpus"], plan["gpus"], plan["wait_s"]
        resources = f"{cpus:g} CPU and {gpus:g} GPU"
        self._until(f"no node of the Ray pool had {resources} free within {wait_s:g} s", wait_s)
        made = actor.remote(self._ray)
        self._actor = made.options(num_cpus=cpus, num_gpus=gpus).remote()
        self._ray.get(self._actor.__ray_ready__.remote())
        self._until(f"the engine was not loaded in {plan['timeout_s']:g} s", plan["timeout_s"])
        code = actor.pack(plan["folders"])
        named = [plan[name] for name in ("arguments", "defaults", "variables", "patterns")]
        try:
            self._node = self._ray.get(self._actor.start.remote(code, *named))
        except self._ray.exceptions.RayTaskError as error:
            raise Refused(f"cannot start {plan['arguments'][0]} on its node: {error.cause}") from error

    def _load(self, request: dict[str, Any]) -> None:
        hello, _ = self._answer(self._actor.receive.remote())
        if hello.get("type") != "hello":
            raise Refused("the engine's process did not send hello")
        frame = b"".join(wire.encode(request))
        answer, frame = self._answer(self._actor.exchange.remote(self._next(), frame))
        if answer.get("type") == "loaded" and isinstance(answer.get("info"), dict):
            answer["info"]["node"] = self._node
            frame = b"".join(wire.encode(answer))
        self._stage = ("", float("inf"))
        self._is_loaded = True
        self._worker.sendall(frame)

    def _answer(self, call: Any) -> tuple[dict[str, Any], bytes]:
        """The message that a call returns, parsed and raw. Raises if the process exited instead."""
        frame = self._ray.get(call)
        if not frame:
            status, evidence = self._ray.get(self._actor.watch.remote())
            _print(evidence)
            raise Refused(f"the engine's process ended with {status} before it was loaded")
        if _LENGTHS.unpack_from(frame)[1]:
            raise Refused("the engine's process said something else")
        header = json.loads(frame[_LENGTHS.size :])
        return header if isinstance(header, dict) else {}, frame

    def _carry_out(self) -> None:
        """From the worker to the engine. When the worker's messages end, the engine is shut down cleanly."""
        while lengths := self._worker.recv(_LENGTHS.size, socket.MSG_WAITALL):
            header_size, body_size = _LENGTHS.unpack(lengths)
            header = self._worker.recv(header_size, socket.MSG_WAITALL)
            is_answered = json.loads(header)["type"] in _ANSWERED
            if body_size > wire.JOINED_BYTES:
                self._send_long(lengths + header, body_size)
                self._expect(None, is_answered)
            else:
                body = self._worker.recv(body_size, socket.MSG_WAITALL) if body_size else b""
                self._expect(lengths + header + body, is_answered)
        self._end_engine(in_order=True)
        os._exit(0)

    def _send_long(self, head: bytes, body_size: int) -> None:
        under_way = deque([self._actor.send.remote(self._next(), head)])
        while body_size:
            piece = self._worker.recv(min(body_size, actor.PIECE_BYTES), socket.MSG_WAITALL)
            if not piece:
                return
            body_size -= len(piece)
            under_way.append(self._actor.send.remote(self._next(), piece))
            if len(under_way) > WINDOW:
                self._ray.get(under_way.popleft())

    def _expect(self, frame: bytes | None, is_answered: bool) -> None:
        """Send what is not sent yet, and make sure that a call waits for its answer."""
        with self._state:
            self._owed += is_answered
            listens = is_answered and not self._reading
            self._reading = self._reading or is_answered
        if frame is None:
            call = self._actor.receive.remote() if listens else None
        elif listens:
            call = self._actor.exchange.remote(self._next(), frame)
        else:
            call = self._actor.send.remote(self._next(), frame)
        if listens:
            self._calls.put(call)

    def _next(self) -> int:
        number, self._number = self._number, self._number + 1
        return number

    def _carry_back(self) -> None:
        """From the engine to the worker, as long as an answer is due."""
        while piece := self._ray.get(self._calls.get()):
            header_size, body_size = _LENGTHS.unpack_from(piece)
            kind = json.loads(piece[_LENGTHS.size :][:header_size])["type"]
            left = _LENGTHS.size + header_size + body_size - len(piece)
            calls = -(-left // actor.PIECE_BYTES)
            under_way = deque(self._actor.receive.remote() for _ in range(min(calls, WINDOW)))
            calls -= len(under_way)
            self._worker.sendall(piece)
            while under_way:
                piece = self._ray.get(under_way.popleft())
                if calls:
                    under_way.append(self._actor.receive.remote())
                    calls -= 1
                self._worker.sendall(piece)
            with self._state:
                self._owed -= kind in _ANSWERS
                self._reading = self._owed > 0
                if self._reading:
                    self._calls.put(self._actor.receive.remote())
        self._silent.set()

    def _outlive(self) -> None:
        """Exit with the status of the engine's process, once all its messages have been passed on."""
        status, evidence = self._ray.get(self._actor.watch.remote())
        with self._state:
            reading = self._reading
        if reading:
            self._silent.wait()
        _print(evidence)
        if status < 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with contextlib.suppress(OSError, ValueError):
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
            time.sleep(LOOK_S)
        os._exit(status if status >= 0 else 1)

    def _guarded(self, work: Any) -> None:
        """Any failure between the worker and the actor means that this host is lost."""
        try:
            work()
        except Exception as error:
            _print(f"the actor was lost: {_cause(error)}\n".encode())
            os._exit(1)

    def _until(self, late: str, limit_s: float) -> None:
        self._stage = (late, min(time.monotonic() + limit_s, self._latest))

    def _say(self, header: dict[str, Any]) -> None:
        self._worker.sendall(b"".join(wire.encode(header)))

    def _refuse(self, message: str) -> None:
        with contextlib.suppress(OSError):
            self._say({"type": "failed", "code": "engine_not_ready", "message": message, "transient": False})
        self._end_engine(in_order=False)
        os._exit(1)

    def _end_engine(self, *, in_order: bool) -> None:
        if self._actor is not None:
            with contextlib.suppress(Exception):
                self._ray.get(self._actor.end.remote(in_order), timeout=END_S)


def main(arguments: list[str]) -> None:
    """Run as the driver that the worker started. Never returns."""
    parser = argparse.ArgumentParser(prog="tenuto_ray.driver")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args(arguments)
    # Before Ray starts its threads, so that all of them leave the signal to us.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    end_with(options.parent)
    os.set_inheritable(options.fd, False)
    driver = Driver(socket.socket(fileno=options.fd))
    threading.Thread(target=driver.serve, name="serve", daemon=True).start()
    driver.watch()


def _cause(error: Exception) -> str:
    """Ray's error in one line: it writes whole pages, with the cause first or last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines)[:500]}"


def _print(evidence: bytes) -> None:
    """The engine's last output, for the worker to keep."""
    with contextlib.suppress(OSError):
        os.write(1, evidence)


if __name__ == "__main__":
    main(sys.argv[1:])
