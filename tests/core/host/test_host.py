"""What every host does, whatever it is made of: the worker knows no more than this."""

import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from servers.speed import HANG_S, at_least
from tenuto.host import messages
from tenuto.host.child_host import ChildHost
from tenuto.host.host import (
    Cancellation,
    Cancelled,
    EngineFailed,
    HostDeadline,
    HostLost,
    HostNotReady,
    HostResult,
    OutcomeUnknown,
)

MakeHost = Callable[..., ChildHost]
DoRun = Callable[..., HostResult]
Gone = Callable[[int, float], bool]


def test_a_run_gets_its_parameters_and_inputs_and_gives_its_result(host: ChildHost, run: DoRun) -> None:
    """Text, numbers and bytes arrive as they were sent, and the result comes back whole, also where the wall
    clock says 1970 and the deadline is decades away (P20).
    """
    result = run(
        host,
        "echo",
        {"voice": b"RIFF", "empty": b""},
        text="你好 🎵",
        factor=1.5,
        run_id="attempt_1",
        deadline_s=2e9,
    )

    digests = {name: hashlib.sha256(x).hexdigest() for name, x in (("voice", b"RIFF"), ("empty", b""))}
    parameters = {"mode": "echo", "text": "你好 🎵", "factor": 1.5}
    seen = {"parameters": parameters, "run_id": "attempt_1", "pid": host.pid, "inputs": digests}
    assert HostResult("text/plain", b"echo", seen, 7) == result


def test_segments_and_progress_arrive_in_order_in_the_callers_thread(host: ChildHost, run: DoRun) -> None:
    """Streaming hands on each piece as it is made, in order, with its metadata (R55, R56)."""
    segments: list[tuple[int, int, int]] = []
    progress: list[dict[str, Any]] = []
    run(
        host,
        "stream",
        total=50,
        on_segment=lambda content, metadata: segments.append(
            (metadata["index"], content[0], threading.get_ident())
        ),
        on_progress=progress.append,
    )

    assert [(index, index, threading.get_ident()) for index in range(50)] == segments
    assert {"stage": "streaming", "completed": 50, "total": 50, "unit": "segments"} == progress[-1]
    assert 50 == len(progress)


def test_segments_that_nobody_takes_make_the_engine_wait(
    host: ChildHost, run: DoRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit of what is unread nothing more is taken in, not even health; all still arrives once."""
    monkeypatch.setattr(messages, "UNREAD_LIMIT_MESSAGES", 0)
    monkeypatch.setattr(messages, "UNREAD_LIMIT_BYTES", 0)
    segments: list[int] = []

    def take(content: bytes, metadata: dict[str, Any]) -> None:
        if not segments:
            # The first answers may overtake the engine's next segments; then they stand behind them.
            with pytest.raises(HostLost):
                for _ in range(5_000):
                    host.health(timeout_s=0.3)
        segments.append(metadata["index"])

    run(host, "stream", total=100, on_segment=take)

    assert list(range(100)) == segments


def test_big_inputs_and_results_pass_whole(host: ChildHost, run: DoRun) -> None:
    """30 MiB go either way."""
    content = os.urandom(30 << 20)
    result = run(host, "echo", {"audio": content})

    assert hashlib.sha256(content).hexdigest() == result.metadata["inputs"]["audio"]
    assert b"r" * (30 << 20) == run(host, "big", size_bytes=30 << 20).content


def test_a_failing_engine_leaves_the_host_usable(host: ChildHost, run: DoRun) -> None:
    """An exception, or a result that is not bytes with plain JSON, is the run's failure, not the host's."""
    pid, failures = host.pid, []
    for mode in ("raise_error", "refuse", "exit_politely"):
        with pytest.raises(EngineFailed) as failed:
            run(host, mode)
        failures.append((failed.value.code, failed.value.message, failed.value.transient))
    for which in ("none", "text", "nan", "object", "list", "surrogate", "long"):
        with pytest.raises(EngineFailed):
            run(host, "unfit", which=which)

    assert [
        ("engine_failed", "ValueError: bad prompt", False),
        ("nothing_to_speak", "there is nothing", True),
        ("engine_failed", "SystemExit: 4", False),
    ] == failures
    assert pid == run(host, "echo").metadata["pid"]


def test_an_outcome_can_be_unknown(host: ChildHost, run: DoRun) -> None:
    """A metered engine that cannot say what became of its call is told apart from a failure."""
    with pytest.raises(OutcomeUnknown) as unknown:
        run(host, "unknown")

    assert "the line went dead" == unknown.value.message


def test_a_cancel_from_another_thread_wakes_a_silent_run(host: ChildHost, run: DoRun) -> None:
    """The switch reaches a run that waits, without polling; an engine that looks stays warm."""
    pid, cancelled, started = host.pid, Cancellation(), threading.Event()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            run, host, "until_cancelled", on_progress=lambda _: started.set(), cancelled=cancelled
        )
        assert started.wait(HANG_S)
        cancelled.set()
        with pytest.raises(Cancelled) as error:
            waiting.result(HANG_S)

    assert not error.value.lost
    assert pid == run(host, "echo").metadata["pid"]


def test_a_cancel_before_the_start_runs_nothing(host: ChildHost, run: DoRun) -> None:
    """A switch that is set already stops the run before the engine hears of it."""
    cancelled = Cancellation()
    cancelled.set()
    with pytest.raises(Cancelled) as error:
        run(host, "crash", cancelled=cancelled)

    assert not error.value.lost
    assert host.alive


def test_a_result_that_comes_in_the_grace_is_given(host: ChildHost, run: DoRun) -> None:
    """An engine that finishes all the same has its result recorded: a recorded result wins over a cancel."""
    cancelled = Cancellation()
    result = run(host, "finish_when_cancelled", on_progress=lambda _: cancelled.set(), cancelled=cancelled)

    assert b"finished all the same" == result.content


@pytest.mark.parametrize("mode", ["deaf", "hold_lock"])
def test_a_deaf_engine_is_killed_after_the_grace(host: ChildHost, run: DoRun, gone: Gone, mode: str) -> None:
    """Whatever the engine is stuck in, a cancel ends it, and the next load is a new process."""
    pid, cancelled = host.pid, Cancellation()
    assert pid is not None
    with pytest.raises(Cancelled) as error:
        run(host, mode, on_progress=lambda _: cancelled.set(), cancelled=cancelled, grace_s=0.2)

    assert error.value.lost
    assert gone(pid, 0)
    assert (False, None) == (host.alive, host.pid)
    assert pid != host.load()["pid"]
    assert b"echo" == run(host, "echo").content


def test_a_deadline_kills(host: ChildHost, run: DoRun, gone: Gone) -> None:
    """A run that does not end in time ends with its process."""
    pid = host.pid
    assert pid is not None
    with at_least(0.3), pytest.raises(HostDeadline):
        run(host, "deaf", deadline_s=0.3)

    assert gone(pid, 0)
    assert pid != host.load()["pid"]


def test_a_deadline_ends_a_run_that_never_stops_talking(host: ChildHost, run: DoRun) -> None:
    """Segments without end do not put the deadline off."""
    with pytest.raises(HostDeadline):
        run(host, "stream", total=10**9, deadline_s=0.3)


@pytest.mark.parametrize(("mode", "exit_code"), [("crash", -11), ("leave", 3)])
def test_a_process_that_ends_during_a_run_is_lost(
    host: ChildHost, run: DoRun, mode: str, exit_code: int
) -> None:
    """A crash is told apart from a failure, with the exit status and the engine's last words."""
    with pytest.raises(HostLost) as lost:
        run(host, mode)

    assert (HostLost, exit_code) == (type(lost.value), lost.value.exit_code)
    assert {"crash": "Segmentation fault", "leave": "the last words"}[mode] in lost.value.evidence
    assert not host.alive


def test_a_process_that_leaves_its_connection_to_another_is_lost(host: ChildHost, run: DoRun) -> None:
    """What an engine forked into a session of its own cannot keep a run waiting for an answer."""
    with pytest.raises(HostLost) as error:
        run(host, "leave_another_behind", deadline_s=60)

    assert 3 == error.value.exit_code


def test_a_run_without_an_engine_runs_nothing(make_host: MakeHost, run: DoRun) -> None:
    """Before a load, and after a loss, nothing can have been charged: HostNotReady, not HostLost."""
    host = make_host()
    with pytest.raises(HostNotReady):
        run(host, "echo")
    host.load()
    with pytest.raises(HostLost):
        run(host, "crash")

    with pytest.raises(HostNotReady):
        run(host, "echo")


def test_what_a_callback_raises_stops_the_run(host: ChildHost, run: DoRun) -> None:
    """A worker that lost its lease says so by raising; the engine is stopped and stays warm."""
    pid = host.pid

    def refuse(_: dict[str, Any]) -> None:
        raise LookupError("another attempt has the lease")

    with pytest.raises(LookupError):
        run(host, "until_cancelled", on_progress=refuse)

    assert pid == run(host, "echo").metadata["pid"]


def test_runs_of_a_plain_engine_take_turns(host: ChildHost, run: DoRun) -> None:
    """Several threads may call; an engine that takes one run at a time gets one at a time."""
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: run(host, "count"), range(40)))

    assert {1} == {result.metadata["most"] for result in results}


def test_an_engine_that_takes_several_runs_gets_them(make_host: MakeHost, run: DoRun) -> None:
    """Two runs that wait for each other both end when the engine declares a concurrency of two."""
    host = make_host(options={"concurrency": 2})
    host.load()
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: run(host, "meet"), range(2)))

    assert [b"", b""] == [result.content for result in results]


def test_health_answers_during_a_run(host: ChildHost, run: DoRun) -> None:
    """The process is asked beside its run, and names it."""
    cancelled, health = Cancellation(), {}

    def look(_: dict[str, Any]) -> None:
        health.update(host.health())
        cancelled.set()

    with pytest.raises(Cancelled):
        run(host, "until_cancelled", on_progress=look, cancelled=cancelled, run_id="attempt_2")

    assert {"pid": host.pid, "running": ["attempt_2"]} == health


def test_a_failed_load_says_why(make_host: MakeHost) -> None:
    """The engine's own code and message reach the worker."""
    host = make_host(options={"load": "raise"})
    with pytest.raises(HostNotReady) as error:
        host.load()

    assert "weights_missing" == error.value.code
    assert "no weights here" in error.value.message
    assert (False, None) == (host.alive, host.pid)


def test_a_load_that_hangs_is_ended(make_host: MakeHost) -> None:
    """The time to load is limited."""
    host = make_host(options={"load": "hang"}, load_timeout_s=0.5)
    with pytest.raises(HostNotReady) as error:
        host.load()

    assert "0.5 s" in error.value.message
    assert host.pid is None


@pytest.mark.parametrize("interpreter", ["/no/such/python", "/bin/true", "/", "no-such-python", "a\0b"])
def test_a_wrong_interpreter_is_not_ready(make_host: MakeHost, interpreter: str) -> None:
    """What cannot be started, or is no Python, is said in bounded time, and no process is left."""
    host = make_host(interpreter=interpreter)
    with pytest.raises(HostNotReady) as error:
        host.load()

    assert interpreter.replace("\0", "\ufffd") in error.value.message or "ended with" in error.value.message
    assert host.pid is None


def test_a_full_host_runs_nothing_more(host: ChildHost, run: DoRun) -> None:
    """Who waits for a place until the deadline is told that nothing was run, and may cancel before; who has
    it goes on.
    """
    cancelled, started, second = Cancellation(), threading.Event(), Cancellation()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(
            run, host, "until_cancelled", on_progress=lambda _: started.set(), cancelled=cancelled
        )
        assert started.wait(HANG_S)
        with pytest.raises(HostNotReady) as error:
            run(host, "echo", deadline_s=0.2)
        waiting = pool.submit(run, host, "echo", cancelled=second)
        second.set()
        with pytest.raises(Cancelled):
            waiting.result(HANG_S)

        assert "busy" in error.value.message
        assert not running.done()
        cancelled.set()
        with pytest.raises(Cancelled):
            running.result(HANG_S)


@pytest.mark.parametrize("engine", ["no_such_module:Demo", "demo:NoSuchClass"])
def test_an_engine_that_is_not_there_is_not_ready(make_host: MakeHost, engine: str) -> None:
    """A wrong name is a failed load."""
    with pytest.raises(HostNotReady):
        make_host(engine=engine).load()


def test_close_ends_everything_and_stays_closed(host: ChildHost, run: DoRun, gone: Gone) -> None:
    """After a close there is no process; a second close does nothing, a load refuses."""
    pid = host.pid
    assert pid is not None
    host.close()
    host.close()

    assert gone(pid, 0)
    assert (False, None) == (host.alive, host.pid)
    with pytest.raises(HostNotReady):
        host.load()


def test_close_during_a_run_loses_it(host: ChildHost, run: DoRun) -> None:
    """Nobody waits for a host that was closed."""
    started = threading.Event()
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, host, "deaf", on_progress=lambda _: started.set())
        assert started.wait(HANG_S)
        host.close()

        with pytest.raises(HostLost):
            running.result(HANG_S)


@pytest.mark.parametrize("hear", [True, False])
def test_what_an_engine_started_ends_with_it(host: ChildHost, run: DoRun, gone: Gone, hear: bool) -> None:
    """Processes of the engine's own do not outlive it, whether it is killed or closed."""
    cancelled, others = Cancellation(), []

    def note(progress: dict[str, Any]) -> None:
        others.append(progress["completed"])
        cancelled.set()

    with pytest.raises(Cancelled):
        run(host, "start_another", on_progress=note, cancelled=cancelled, grace_s=0.2, hear=hear)
    host.close()

    assert gone(others[0], 1)
