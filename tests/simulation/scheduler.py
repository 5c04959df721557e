"""Virtual time and one virtual processor: of all threads exactly one runs, and a seed decides which.

Each virtual thread is a greenlet. It runs until it waits (for a lock, an event, a timeout) or comes to a
switch point; then the next one is drawn. Time passes only when every thread waits. While a scheduler is
`installed`, `threading`, `queue.SimpleQueue` and the clocks of `time` are virtual for this one thread of the
system, so the service's own threads run as they are. Knows neither the service nor what a fault is.
"""

import heapq
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import FrameType, TracebackType
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

LONGEST_STEPS = 200_000
"""More switches than a world of this size can need: something runs in a circle."""


class Stuck(Exception):
    """Nothing can happen any more, or the same happens for ever."""


@dataclass(eq=False)
class Process:
    """A group of virtual threads that dies as one, and may stand still as one."""

    name: str
    is_dead: bool = False
    frozen_until: float = 0.0
    on_death: list[Callable[[], None]] = field(default_factory=list)
    """What the kernel does then: it frees locks."""


@dataclass(eq=False)
class Actor:
    """One virtual thread."""

    name: str
    process: Process
    run: greenlet
    woken: bool = False
    waits: int = 0
    """How often it has waited: a timer of an earlier wait is void."""
    is_waiting: bool = False
    is_done: bool = False


class Scheduler:
    """Runs actors one at a time, in an order drawn from `random`."""

    def __init__(self, random: Random, note: Callable[[str], None]) -> None:
        self.now_s = 1000.0
        self.steps = 0
        self.random_steps = LONGEST_STEPS
        """From this step on nobody draws any more: the thread that has waited longest is next."""
        self.before_step: Callable[[], None] = lambda: None
        """Called between any two steps."""
        self.is_closing = False
        self._random = random
        self._note = note
        self._ready: deque[Actor] = deque()
        self._timers: list[tuple[float, int, Actor, int]] = []
        self._timer_count = 0
        self._hub = getcurrent()
        self._actors: list[Actor] = []
        self.current: Actor | None = None

    def spawn(self, name: str, process: Process, work: Callable[[], object]) -> Actor:
        """A new thread, ready to run."""

        def run() -> None:
            try:
                work()
            finally:
                actor.is_done = True

        actor = Actor(name, process, greenlet(run, self._hub))
        self._actors.append(actor)
        self._ready.append(actor)
        return actor

    def run_until(self, is_over: Callable[[], bool], *, latest_s: float) -> None:
        """Run the threads until it is over. Stuck: it never is."""
        while not is_over():
            if self.steps > LONGEST_STEPS:
                raise Stuck(f"it goes round in circles, at {self.now_s - 1000:.3f} s")
            if not self._ready and not self._pass_time(latest_s):
                raise Stuck(f"nobody can continue, at {self.now_s - 1000:.3f} s")
            self._step()

    def _step(self) -> None:
        ready = self._ready
        if self.steps < self.random_steps and len(ready) > 1:
            ready.rotate(-int(self._random.random() * len(ready)))
        actor = ready.popleft()
        process = actor.process
        if process.is_dead or actor.is_done:
            return
        if process.frozen_until > self.now_s:
            self._set_timer(process.frozen_until, actor)
            return
        self.steps += 1
        self.before_step()
        if process.is_dead or process.frozen_until > self.now_s:
            self._ready.append(actor)
            return
        actor.is_waiting = False
        self.current = actor
        try:
            actor.run.switch()
        finally:
            self.current = None

    def _pass_time(self, latest_s: float) -> bool:
        """To the next moment at which a thread can run; False when there is none in time."""
        timers = self._timers
        while timers and not self._ready:
            at_s = timers[0][0]
            if at_s > latest_s:
                return False
            self.now_s = max(self.now_s, at_s)
            while timers and timers[0][0] <= self.now_s:
                _, _, actor, wait = heapq.heappop(timers)
                if actor.waits == wait and actor.is_waiting and not actor.process.is_dead:
                    self._make_ready(actor)
        return bool(self._ready)

    def _set_timer(self, at_s: float, actor: Actor) -> None:
        actor.is_waiting = True
        self._timer_count += 1
        heapq.heappush(self._timers, (at_s, self._timer_count, actor, actor.waits))

    def _make_ready(self, actor: Actor) -> None:
        actor.waits += 1
        actor.is_waiting = False
        self._ready.append(actor)

    # --- what a thread does ------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until somebody wakes this thread; False: the time was over first."""
        actor = self._me()
        actor.woken = False
        actor.waits += 1
        actor.is_waiting = True
        if timeout_s is not None:
            self._set_timer(self.now_s + max(0.0, timeout_s), actor)
        self._leave()
        return actor.woken

    def wake(self, actor: Actor) -> None:
        """What it waits for has happened."""
        if actor.is_waiting and not actor.woken:
            actor.woken = True
            self._make_ready(actor)

    def switch(self) -> None:
        """A switch point: another thread may continue here."""
        actor = self._me()
        self._ready.append(actor)
        self._leave()

    def sleep(self, seconds: float) -> None:
        self.wait(seconds)

    def me(self) -> Actor:
        """The thread that runs now."""
        return self._me()

    def _me(self) -> Actor:
        if self.is_closing or self.current is None:
            raise GreenletExit
        return self.current

    def _leave(self) -> None:
        self._hub.switch()
        if self.is_closing:
            raise GreenletExit

    # --- processes ---------------------------------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """As SIGKILL does: not one further instruction, and the kernel closes its files."""
        process.is_dead = True
        for free in process.on_death:
            free()

    def close(self) -> None:
        """Unwind every thread; nothing that it still tries has an effect."""
        self.is_closing = True
        for actor in self._actors:
            for _ in range(20):
                if not actor.run:
                    break
                try:
                    actor.run.throw(GreenletExit)
                except BaseException:  # What an unwound thread raises is nobody's business.
                    continue


# --- the standard library's names, virtual ---------------------------------------------------------------


class Lock:
    """`threading.Lock`; handed over in the order of those who wait."""

    def __init__(self) -> None:
        self._scheduler = _now()
        self._is_held = False
        self._waiting: deque[Actor] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._is_held:
            self._is_held = True
            return True
        if self._scheduler.is_closing:
            raise GreenletExit
        if not blocking:
            return False
        me = self._scheduler.me()
        self._waiting.append(me)
        if self._scheduler.wait(None if timeout < 0 else timeout):
            return True
        self._waiting.remove(me)
        return False

    def release(self) -> None:
        while self._waiting:
            following = self._waiting.popleft()
            if not following.process.is_dead:
                self._scheduler.wake(following)
                return
        self._is_held = False

    def locked(self) -> bool:
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class Condition:
    """`threading.Condition`."""

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = Lock() if lock is None else lock
        self._scheduler = self._lock._scheduler
        self._waiting: deque[Actor] = deque()
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        me = self._scheduler.me()
        self._waiting.append(me)
        self._lock.release()
        woken = False
        try:
            woken = self._scheduler.wait(timeout)
        finally:
            if not woken and me in self._waiting:
                self._waiting.remove(me)
            self._lock.acquire()
        return woken

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        until = None if timeout is None else self._scheduler.now_s + timeout
        while not (result := predicate()):
            left = None if until is None else until - self._scheduler.now_s
            if left is not None and left <= 0:
                return predicate()
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        while n and self._waiting:
            self._scheduler.wake(self._waiting.popleft())
            n -= 1

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class Event:
    """`threading.Event`."""

    def __init__(self) -> None:
        self._scheduler = _now()
        self._flag = False
        self._waiting: deque[Actor] = deque()

    def is_set(self) -> bool:
        return self._flag

    def set(self) -> None:
        self._flag = True
        while self._waiting:
            self._scheduler.wake(self._waiting.popleft())

    def clear(self) -> None:
        self._flag = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._flag:
            return True
        me = self._scheduler.me()
        self._waiting.append(me)
        if not self._scheduler.wait(timeout) and me in self._waiting:
            self._waiting.remove(me)
        return self._flag


class SimpleQueue:
    """`queue.SimpleQueue`."""

    def __init__(self) -> None:
        self._scheduler = _now()
        self._items: deque[Any] = deque()
        self._waiting: deque[Actor] = deque()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._items.append(item)
        if self._waiting:
            self._scheduler.wake(self._waiting.popleft())

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        while not self._items:
            if not block:
                raise queue.Empty
            self._waiting.append(self._scheduler.me())
            if not self._scheduler.wait(timeout):
                raise queue.Empty
        return self._items.popleft()

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def qsize(self) -> int:
        return len(self._items)

    def empty(self) -> bool:
        return not self._items


class Thread:
    """`threading.Thread`: an actor of the process whose thread starts it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self.name = name or "thread"
        self.daemon = bool(daemon)
        self.ident: int | None = None
        self._work: Callable[[], object] = partial(target or (lambda: None), *args, **(kwargs or {}))
        self._actor: Actor | None = None
        self._ended = Event()

    def start(self) -> None:
        scheduler = self._ended._scheduler
        process = scheduler.me().process
        self.ident = 1

        def run() -> None:
            try:
                self._work()
            finally:
                self._ended.set()

        self._actor = scheduler.spawn(f"{process.name}.{self.name}", process, run)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.is_done

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)


_installed: list[Scheduler] = []


def _now() -> Scheduler:
    assert _installed, "virtual threads need a scheduler"
    return _installed[-1]


_VIRTUAL: dict[tuple[Any, str], Any] = {
    (threading, "Lock"): Lock,
    (threading, "RLock"): Lock,
    (threading, "Condition"): Condition,
    (threading, "Event"): Event,
    (threading, "Thread"): Thread,
    (queue, "SimpleQueue"): SimpleQueue,
}


def _outlives_a_world(place: FrameType) -> bool:
    """Whether what is made there is used after the world: a module's own, or a lock of a log's file."""
    return place.f_code.co_name == "<module>" or place.f_globals["__name__"] == "structlog._output"


@contextmanager
def installed(scheduler: Scheduler) -> Iterator[None]:
    """While the block lasts, this thread's time and threads are the scheduler's; others keep theirs."""
    assert not _installed, "one world at a time"
    ours, real = threading.get_ident(), {key: getattr(*key) for key in _VIRTUAL}
    clocks = {name: getattr(time, name) for name in ("monotonic", "perf_counter", "time", "sleep")}

    def chosen(virtual: Any, actual: Any) -> Any:
        return lambda *args, **kwargs: (
            virtual(*args, **kwargs) if threading.get_ident() == ours else actual(*args, **kwargs)
        )

    def made(virtual: Any, actual: Any) -> Any:
        def make(*args: Any, **kwargs: Any) -> Any:
            kind = actual if _outlives_a_world(sys._getframe(1)) else chosen(virtual, actual)
            return kind(*args, **kwargs)

        return make

    def now_s() -> float:
        return scheduler.now_s

    for (module, name), virtual in _VIRTUAL.items():
        setattr(module, name, made(virtual, real[module, name]))
    for name, actual in clocks.items():
        setattr(time, name, chosen(scheduler.sleep if name == "sleep" else now_s, actual))
    _installed.append(scheduler)
    try:
        yield
    finally:
        scheduler.close()
        _installed.clear()
        for (module, name), actual in real.items():
            setattr(module, name, actual)
        for name, actual in clocks.items():
            setattr(time, name, actual)
