"""What a child process does beyond `test_host.py`: interpreters, surroundings, breaches, our own death."""

import gc
import os
import resource
import shlex
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

import tenuto
import tenuto_engine
from servers.rig import eventually
from servers.speed import HANG_S
from servers.threads import lacking
from tenuto.config import RaySettings
from tenuto.errors import is_of_the_machine
from tenuto.host import process
from tenuto.host.child_host import ChildHost
from tenuto.host.host import (
    Cancellation,
    Cancelled,
    HostDeadline,
    HostDraining,
    HostLost,
    HostNotReady,
    HostResult,
)

MakeHost = Callable[..., ChildHost]
DoRun = Callable[..., HostResult]
Gone = Callable[[int, float], bool]

HERE = Path(__file__).parent

PARENT = """
import sys
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec

host = ChildHost(EngineSpec("demo:Demo", sys.executable, path=sys.argv[1]))
pid = host.load()["pid"]
say = lambda progress: print(pid, flush=True)
host.run({"mode": sys.argv[2]}, {}, on_segment=print, on_progress=say, deadline_s=600)
"""

ROGUE = """
import json, os, struct, sys

fd = int(sys.argv[sys.argv.index("--fd") + 1])

def say(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    os.write(fd, struct.pack("!II", len(text), len(body)) + text + body)

def hear():
    header, body = struct.unpack("!II", os.read(fd, 8))
    return json.loads(os.read(fd, header + body)[:header])

hello = {"type": "hello", "protocol": 1, "python": "3", "pid": 1}
loaded = {"type": "loaded", "info": {"concurrency": 1}}
"""

WELCOME = "say(hello); hear(); say(loaded); run_id = hear()['run_id']; "
RESULT = "{'type': 'result', 'run_id': run_id, 'media_type': 'a/b', 'metadata': {}, 'duration_ms': 1"


@pytest.fixture
def make_host(make_in: Callable[[RaySettings | None], MakeHost]) -> MakeHost:
    """Give a function that makes a host here."""
    return make_in(None)


@pytest.fixture
def rogue(tmp_path: Path) -> Callable[[str], str]:
    """Give a function that makes an interpreter which runs the given lines in place of our far end."""

    def rogue(lines: str) -> str:
        script, interpreter = tmp_path / "rogue.py", tmp_path / "python"
        script.write_text(f"{ROGUE}\n{lines}\n")
        command = shlex.join([sys.executable, str(script)])
        interpreter.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        interpreter.chmod(0o700)
        return str(interpreter)

    return rogue


def descriptors() -> list[str]:
    """Give the numbers of our open descriptors, the one that lists them included."""
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("mode", ["deaf", "hold_lock"])
def test_a_host_ends_within_a_second_of_its_parents_death(gone: Gone, mode: str) -> None:
    """kill -9 of the worker ends its engines, even one that holds the interpreter's lock."""
    command = [sys.executable, "-c", PARENT, str(HERE / "engines"), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid, 0)
        parent.send_signal(signal.SIGKILL)

        assert gone(pid, 1.0)


def test_a_host_that_starts_after_its_parents_death_ends_at_once() -> None:
    """The parent's number is checked after the kernel was asked: no gap between the two."""
    host = str(Path(tenuto_engine.__file__ or "").parent)
    command = [sys.executable, host, "demo:Demo", "--fd", "0", "--parent", "1", "--path", "/"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)

    assert (0, b"") == (ended.returncode, ended.stdout + ended.stderr)


def test_another_protocol_is_refused_with_both_versions(
    make_host: MakeHost, rogue: Callable[[str], str]
) -> None:
    """A far end of another release is named as such."""
    interpreter = rogue("say({**hello, 'protocol': 99}); hear()")
    with pytest.raises(HostNotReady) as error:
        make_host(interpreter=interpreter).load()

    assert "protocol 99, we speak 1" in error.value.message


@pytest.mark.parametrize(
    "lines",
    [
        "os.write(fd, b'GET / HTTP/1.1')",
        "os.write(fd, struct.pack('!II', 10, 10) + b'{}')",
        "say(b'[' * 100_000)",
        "say({'type': 'no such type'})",
        "say({'type': 'hello', 'protocol': '1', 'python': '3'})",
    ],
)
def test_a_greeting_that_breaks_the_protocol_is_not_ready(
    make_host: MakeHost, rogue: Callable[[str], str], lines: str
) -> None:
    """A host is not trusted: what it may not say ends it."""
    with pytest.raises(HostNotReady):
        make_host(interpreter=rogue(lines)).load()


@pytest.mark.parametrize(
    "lines",
    [
        f"say({RESULT}, 'media_type': 3}})",
        f"say({RESULT}, 'media_type': 'text'}})",
        f"say({RESULT}, 'metadata': []}})",
        f"say({RESULT}, 'metadata': {{'score': float('nan')}}}})",
        f"say({RESULT}, 'duration_ms': True}})",
        f"say({RESULT}, 'duration_ms': 1 << 60}})",
        f"say({RESULT}, 'run_id': 'another'}})",
        f"say({RESULT}, 'metadata': {{'text': chr(0xd800)}}}})",
        'say(b\'{"type":"health","info":{"load":1e999}}\')',
        "say({'type': 'result', 'media_type': 'a/b', 'metadata': {}})",
        "say({'type': 'segment', 'run_id': run_id, 'metadata': 1}, b'x')",
        "say({'type': 'progress', 'run_id': run_id, 'stage': '', 'completed': 0.5, 'total': 1, 'unit': ''})",
        "say({'type': 'failed', 'run_id': run_id, 'code': 'c', 'message': 'm', 'transient': 'no'})",
        "say({'type': 'cancelled', 'run_id': run_id}, b'body')",
        "os.write(fd, struct.pack('!II', 2, 100) + b'{}' + b'short')",
        "os.close(fd); import time; time.sleep(600)",
    ],
)
def test_a_breach_during_a_run_loses_the_host(
    make_host: MakeHost, rogue: Callable[[str], str], run: DoRun, gone: Gone, lines: str
) -> None:
    """Wrong types, NaN, foreign runs and half messages: HostLost, and the process is ended."""
    host = make_host(interpreter=rogue(WELCOME + lines))
    host.load()
    pid = host.pid
    assert pid is not None

    with pytest.raises(HostLost):
        run(host, "echo")
    assert gone(pid, 0)


@pytest.mark.parametrize(
    "lines", ["os.close(fd)", "say({})", "os.write(fd, b'x' * 8)", "[say(hello) for _ in range(100)]"]
)
def test_a_breach_of_an_idle_host_is_seen_without_a_run(
    make_host: MakeHost, rogue: Callable[[str], str], gone: Gone, tmp_path: Path, lines: str
) -> None:
    """The next job must not be the one that finds the host gone."""
    noted = tmp_path / "its process is noted"
    wait = f"import time\nwhile not os.path.exists({str(noted)!r}): time.sleep(0.005)"
    host = make_host(interpreter=rogue(f"say(hello); hear(); say(loaded); {wait}\n{lines}; time.sleep(600)"))
    host.load()
    pid = host.pid
    assert pid is not None
    noted.touch()

    assert gone(pid, 5.0)
    assert eventually(lambda: not host.alive)


@pytest.mark.parametrize(
    ("then", "is_cancelled"),
    [("time.sleep(600)", True), ("while os.write(fd, b'x'): time.sleep(0.02)", False)],
)
def test_a_message_that_does_not_come_to_its_end_keeps_nobody(
    make_host: MakeHost, rogue: Callable[[str], str], run: DoRun, gone: Gone, *, then: str, is_cancelled: bool
) -> None:
    """A deadline, and the end of a cancel's grace, end a host that stops or dribbles inside a message too."""
    half = f"import time; os.write(fd, struct.pack('!II', 2, 200000) + b'{{}}' + b'short')\n{then}"
    host = make_host(interpreter=rogue(WELCOME + half))
    host.load()
    pid = host.pid
    assert pid is not None
    cancelled = Cancellation()
    if is_cancelled:
        threading.Timer(0.2, cancelled.set).start()

    with pytest.raises(Cancelled if is_cancelled else HostDeadline):
        run(host, "echo", cancelled=cancelled, grace_s=0.3, deadline_s=60 if is_cancelled else 0.5)
    assert gone(pid, 0)


def test_a_message_for_which_there_is_no_memory_is_the_end_of_its_host(
    make_host: MakeHost, rogue: Callable[[str], str], gone: Gone, tmp_path: Path
) -> None:
    """It is ended and known to be lost, as after a breach; nothing is left that nobody hears (P14)."""
    may_speak = tmp_path / "may_speak"
    os.mkfifo(may_speak)
    large = f"open({str(may_speak)!r}).read(); os.write(fd, struct.pack('!II', 10, 512 << 20) + bytes(10))"
    host = make_host(
        interpreter=rogue(f"say(hello); hear(); say(loaded); {large}; import time; time.sleep(600)")
    )
    host.load()
    pid = host.pid
    assert pid is not None
    # What earlier tests left behind and is given back meanwhile would be memory for the message.
    gc.collect()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 20), most))
    try:
        may_speak.write_text("now")
        assert gone(pid, 60.0)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
    assert eventually(lambda: not host.alive)


def test_a_cancel_does_not_wait_for_another_runs_input(
    make_host: MakeHost, rogue: Callable[[str], str], run: DoRun, tmp_path: Path
) -> None:
    """A host that takes a large input slowly holds up no cancel, which is sent right behind that input."""
    may_read = tmp_path / "may_read"
    os.mkfifo(may_read)
    lines = f"""
        def exactly(size):
            found = b""
            while len(found) < size:
                found += os.read(fd, size - len(found))
            return found

        say(hello); hear(); say({{"type": "loaded", "info": {{"concurrency": 2}}}})
        first = hear()["run_id"]
        begun = {{"type": "progress", "run_id": first, "stage": "", "completed": 0, "total": 1, "unit": ""}}
        say(begun)
        header, body = struct.unpack("!II", exactly(8))
        say(begun)
        open({str(may_read)!r}).read()
        run_id = json.loads(exactly(header))["run_id"]
        exactly(body)
        header, body = struct.unpack("!II", exactly(8))
        say({RESULT}, "metadata": json.loads(exactly(header))}})
        exactly(1)
    """
    host = make_host(interpreter=rogue(textwrap.dedent(lines)))
    host.load()
    cancelled, has_first, has_both = Cancellation(), threading.Event(), threading.Event()

    def note(_: dict[str, Any]) -> None:
        (has_both if has_first.is_set() else has_first).set()

    with ThreadPoolExecutor() as pool:
        first = pool.submit(
            run, host, "echo", run_id="first", on_progress=note, cancelled=cancelled, grace_s=0.2
        )
        assert has_first.wait(HANG_S)
        second = pool.submit(run, host, "echo", {"audio": bytes(30 << 20)})
        assert has_both.wait(HANG_S)
        cancelled.set()
        with pytest.raises(Cancelled):
            first.result(process.SEND_STALL_S / 2)
        may_read.write_text("now")

        assert {"type": "cancel", "run_id": "first"} == second.result(HANG_S).metadata


def test_a_rogue_that_keeps_to_the_protocol_is_served(
    make_host: MakeHost, rogue: Callable[[str], str], run: DoRun
) -> None:
    """The breaches above fail for what they break, not for how the test speaks."""
    host = make_host(interpreter=rogue(WELCOME + f"say({RESULT}}}, b'content'); hear()"))
    host.load()

    assert HostResult("a/b", b"content", {}, 1) == run(host, "echo")


def test_a_kernel_that_closes_no_network_is_reported_once(
    make_host: MakeHost, rogue: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine runs all the same; nothing is said of one that calls a server."""
    reached = "loaded['info']['network'] = 'not closed: no seccomp'; "
    with capture_logs() as logs:
        for network in (True, False, False):
            make_host(interpreter=rogue(reached + WELCOME + "hear()"), network=network).load()

    events = [(log["event"], log["log_level"], log["reason"]) for log in logs]
    assert [("host.network_open", "warning", "not closed: no seccomp")] == events


def test_an_engine_and_its_package_go_along_to_an_empty_interpreter(
    make_host: MakeHost, run: DoRun, tmp_path: Path
) -> None:
    """It needs nothing installed, and sees neither tenuto nor the folder we live in. Without a path the
    engine is one of the folder, which is not put on the path. An engine's package and the kit travel, without
    what lies beside them. A copy that is installed there does not run: it is not the one whose manifest was
    read.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    empty = str(tmp_path / "empty/bin/python")
    bare = make_host(interpreter=empty)
    bare.load()
    seen = run(bare, "surroundings").metadata
    ours = [Path(package.__file__ or "").parents[1] for package in (tenuto, tenuto_engine)]
    found = make_host(path="", folder=str(HERE / "engines"), interpreter=empty).load()
    [site] = (tmp_path / "empty").glob("lib/python*/site-packages")
    (tmp_path / "beside.py").touch()
    folder = package(tmp_path, "ours")
    spec = {"engine": "brought.engine:Brought", "path": "", "installed": True, "folder": folder}
    host = make_host(**spec, interpreter=empty)
    first = host.load()
    host.close()
    package(site, "its own")
    again = make_host(**spec, interpreter=empty).load()

    assert (False, str(HERE / "engines")) == (seen["tenuto"], seen["path"][0])
    assert not [entry for entry in seen["path"] for own in ours if Path(entry).is_relative_to(own)]
    assert "demo" == found["model_id"]
    assert ("ours", "zh", False) == (first["whose"], first["language"], first["beside"])
    assert "ours" == again["whose"]


def package(folder: Path, whose: str) -> str:
    """A package with an engine in a module of its own, which says whose copy it is and uses the kit."""
    (folder / "brought").mkdir()
    (folder / "brought" / "__init__.py").write_text(f"WHOSE = {whose!r}\n")
    (folder / "brought" / "engine.py").write_text(
        "from importlib.util import find_spec\n"
        "from tenuto_engine_kit.languages import understood\n"
        "from . import WHOSE\n"
        "class Brought:\n"
        "    def __init__(self, options):\n"
        "        told = understood('Chinese', ['zh'])\n"
        "        beside = find_spec('beside') is not None\n"
        "        self.info = {'whose': WHOSE, 'language': told, 'beside': beside}\n"
    )
    return str(folder / "brought")


def test_a_host_sees_no_secret_of_ours(
    make_host: MakeHost, run: DoRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment is a short list and what the specification adds; no descriptor of ours is open."""
    secrets = ("TENUTO_DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "HF_TOKEN", "NVIDIA_API_KEY")
    for name in (*secrets, "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    host = make_host(env={"ENGINE_MODE": "quick"})
    host.load()
    seen = run(host, "surroundings").metadata
    os.close(secret)

    environment = seen["environment"]
    assert ("1", "quick", os.environ["PATH"]) == tuple(
        environment[name] for name in ("OMP_NUM_THREADS", "ENGINE_MODE", "PATH")
    )
    assert "secret" not in environment.values()
    assert seen["session"]
    # Standard input, output and error, the connection, and the one that lists them.
    assert 5 == len(seen["descriptors"])
    # What the engine starts must not hold the connection open after its end.
    assert not seen["inheritable"]


def test_a_process_that_is_being_ended_is_given_no_other_run(
    make_host: MakeHost, run: DoRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes longer to end than anybody waits is nobody's engine: no other job pays for it."""
    monkeypatch.setattr(process, "REAP_S", 0.5)
    host = make_host()
    pid = host.load()["pid"]
    with pytest.raises(HostDeadline):
        run(host, "print_from_elsewhere", deadline_s=0.3)

    assert not host.alive
    with pytest.raises(HostNotReady):
        run(host, "echo")
    held = [thread for thread in threading.enumerate() if thread.name == "host-output"]
    assert pid != host.load()["pid"]
    assert b"echo" == run(host, "echo").content
    # What it started holds the pipe for its three seconds; other tests count descriptors.
    for thread in held:
        thread.join(HANG_S)


class AskedWhileQueued(Cancellation):
    """A switch that reports when it is first read: its run is then waiting for a slot in the process."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def is_set(self) -> bool:
        self.asked.set()
        return super().is_set()


def test_who_waits_behind_a_run_that_is_left_does_not_pay_for_it(make_host: MakeHost, run: DoRun) -> None:
    """A slot that becomes free in a process that is being killed is not used. The waiting run learns that the
    process is draining, or that it is gone; either way, nothing was run."""
    host = make_host()
    host.load()
    with ThreadPoolExecutor() as pool:
        waiting: list[Future[HostResult]] = []

        queued = AskedWhileQueued()

        def leave(progress: dict[str, Any]) -> None:
            waiting.append(pool.submit(run, host, "echo", cancelled=queued))
            assert queued.asked.wait(HANG_S)
            raise SystemExit

        with pytest.raises(SystemExit):
            run(host, "deaf", on_progress=leave)

        error = waiting[0].exception(10)
        assert type(error) in (HostDraining, HostNotReady)
        assert type(error) is HostDraining or str(error).endswith("after it was left by its caller")


def test_a_host_leaves_no_descriptor_open(make_host: MakeHost, run: DoRun) -> None:
    """Loads, losses and closes give back what they took."""
    make_host().load()
    before = descriptors()
    host = make_host()
    host.load()
    with pytest.raises(HostLost):
        run(host, "leave")
    host.load()
    host.close()

    assert before == descriptors()


@pytest.mark.parametrize("concurrency", [1, 8])
def test_an_engine_may_end_in_order_on_close(make_host: MakeHost, tmp_path: Path, concurrency: int) -> None:
    """A close asks first: what the engine registered for its exit is done, however many threads it has."""
    (tmp_path / "orderly.py").write_text(
        textwrap.dedent(
            """
            import atexit, pathlib

            class Orderly:
                def __init__(self, options):
                    self.concurrency = options["concurrency"]
                    atexit.register(pathlib.Path(options["note"]).write_text, "left in order")
            """
        )
    )
    note = tmp_path / "note"
    options: dict[str, Any] = {"note": str(note), "concurrency": concurrency}
    host = make_host(engine="orderly:Orderly", path=str(tmp_path), options=options)
    host.load()
    host.close()

    assert "left in order" == note.read_text()


def test_a_process_that_cannot_be_watched_is_not_ready(
    make_host: MakeHost, gone: Gone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its threads cannot be started: it ends, the machine is to blame, and the next load succeeds."""
    refused = lacking(monkeypatch, "host-listen")
    started, popen = list[int](), subprocess.Popen

    def starting(*arguments: Any, **options: Any) -> Any:
        process = popen(*arguments, **options)
        started.append(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", starting)
    host = make_host()
    with pytest.raises(HostNotReady) as error:
        host.load()
    host.load()

    assert ["host-listen"] == refused
    assert is_of_the_machine(error.value)
    assert gone(started[0], 20)
