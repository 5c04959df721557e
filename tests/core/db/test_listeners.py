"""Wake-ups within a process and between processes."""

import mmap
import multiprocessing
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from servers.speed import HANG_S, at_least
from servers.threads import lacking
from tenuto.db import notices
from tenuto.db.database import Database
from tenuto.db.database_opening import open_database
from tenuto.db.notices import Notices
from tenuto.db.servers import Servers
from tenuto.db.sqlite_processes import Receiver, Sender, Wanted

ROUNDS = 3000
WAKE = """
import sys
from tenuto.db.database_opening import open_database
database = open_database(sys.argv[1])
for line in sys.stdin:
    database.wake(line.strip())
    print("woken", flush=True)
database.close()
"""


@pytest.fixture
def other_process(empty_database_url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that wakes the topic of each line it gets."""
    with subprocess.Popen(
        [sys.executable, "-c", WAKE, empty_database_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def wake(process: subprocess.Popen[str], topic: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{topic}\n")
    process.stdin.flush()
    process.stdout.readline()


def settle(database: Database, process: subprocess.Popen[str]) -> None:
    """Waits until wake-ups of the other process arrive here: connections may have to be made first."""
    with closing(database.listen("ready")) as listener:
        while True:
            while listener.wait(0.1):
                pass
            wake(process, "ready")
            if listener.wait(0.5):
                return


def test_a_listener_hears_every_process_and_its_topics_alone(
    empty_database: Database, other_process: subprocess.Popen[str]
) -> None:
    """It says which of several topics woke it. One name may begin with another. Who listens for one wake-up
    at a time gets one, and the next when they have asked for it.
    """
    settle(empty_database, other_process)
    heard: set[str] = set()
    with closing(empty_database.listen("jobs-a", "jobs-b", "jobs-c")) as listener:
        while listener.wait(0.2):
            pass
        for topic in ("jobs-a", "jobs", "jobs-cc", "other"):
            wake(other_process, topic)
            empty_database.wake(topic)
        wake(other_process, "jobs-b")
        while more := listener.wait(0.5):
            heard |= more
    woken = []
    with closing(empty_database.listen("jobs", once=True)) as silent:
        while silent.wait(0.2):
            pass
        for is_armed in (True, False, True):
            if is_armed:
                silent.arm("jobs")
            for waking in (partial(wake, other_process, "jobs"), partial(empty_database.wake, "jobs")):
                waking()
            # What was sent to an armed listener is there at last; nothing else is.
            woken.append(bool(silent.wait(5 if is_armed else 0.3)))
            while silent.wait(0.3):
                pass

    assert {"jobs-a", "jobs-b"} == heard
    assert [True, False, True] == woken


def test_no_wake_up_is_lost_between_arming_and_looking(tmp_path: Path) -> None:
    """Whatever process commits while a listener arms, looks and falls asleep: it learns of each commit from
    the wake-up alone, for here no look at the database stands behind it. (P1)
    """
    folder, shared = tmp_path / "wake", mmap.mmap(-1, 8)
    with closing(Receiver(folder, ["jobs"], once=True)) as receiver:
        senders = [
            multiprocessing.get_context("fork").Process(target=_count, args=(folder, shared, at))
            for at in (0, 4)
        ]
        for sender in senders:
            sender.start()
        seen, is_woken = 0, True
        while seen < 2 * ROUNDS and is_woken:
            receiver.arm("jobs")
            before, seen = seen, sum(struct.unpack("ii", shared[:]))
            is_woken = seen != before or bool(receiver.wait(10))
        for sender in senders:
            sender.join(HANG_S)

    assert 2 * ROUNDS == seen


def _count(folder: Path, shared: mmap.mmap, at: int) -> None:
    """Raises a number and wakes, now and then pausing for as long as the listener needs to fall asleep."""
    with closing(Sender(folder)) as sender:
        for number in range(1, ROUNDS + 1):
            shared[at : at + 4] = struct.pack("i", number)
            sender.wake("jobs")
            if number % 3 == 0:
                time.sleep(random.uniform(0, 0.0004))


def test_a_sender_that_dies_silences_nobody(tmp_path: Path) -> None:
    """It has taken note that a wake-up is wanted, and never sent it: the listener's next wait asks again."""
    with closing(Receiver(tmp_path, ["jobs"], once=False)) as receiver, closing(Sender(tmp_path)) as sender:
        with closing(Wanted(tmp_path, "jobs")) as dying:
            assert dying.take()
        sender.wake("jobs")
        unsent = receiver.wait(0)
        sender.wake("jobs")

        assert [frozenset(), {"jobs"}] == [unsent, receiver.wait(10)]


def test_wake_ups_that_nobody_wants_are_not_sent(tmp_path: Path) -> None:
    """A flood costs a silent listener nothing: one wake-up lies at its socket, and no more comes."""
    with closing(open_database(f"sqlite:///{tmp_path}/tenuto.db")) as database:
        receiver = Receiver(tmp_path / "wake", ["jobs"], once=True)
        [(_, receiving, _)] = receiver._sockets.values()
        for _ in range(100):
            database.wake("jobs")
        sent = [receiving.recv(16)]
        with suppress(BlockingIOError):
            sent.append(receiving.recv(16))
        receiver.close()

    assert [b"w"] == sent


def test_the_wait_ends_in_time(empty_database: Database) -> None:
    """Without a wake-up the answer is False after the timeout, which may be nothing."""
    with closing(empty_database.listen("jobs")) as listener:
        # PostgreSQL's wakes when its connection is there, however long that takes.
        assert empty_database.dialect == "sqlite" or listener.wait(HANG_S)
        while listener.wait(0.2):
            pass

        with at_least(0.15):
            assert [set(), set()] == [listener.wait(0), listener.wait(0.15)]


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_the_first_listener_is_woken_however_soon_the_connection_is_there(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the connection is ready before the listener is registered."""
    start = notices._started

    def late(work: Callable[[], None], name: str) -> threading.Thread:
        thread = start(work, name)
        time.sleep(0.5)
        return thread

    monkeypatch.setattr(notices, "_started", late)
    with closing(empty_database.listen("jobs")) as listener:
        assert {"jobs"} == listener.wait(5)


def test_sqlite_notices_a_commit_without_a_wake_up(tmp_path: Path) -> None:
    """When the wake-up is lost, the listener sees the commit itself within a second or so."""
    url = f"sqlite:///{tmp_path}/tenuto.db"
    with (
        closing(open_database(url)) as database,
        closing(open_database(url)) as other,
        closing(database.listen("jobs")) as listener,
    ):
        assert not listener.wait(0.15)
        other.write(lambda tx: tx.run("create table note (id text)"))

        assert [{"jobs"}, set()] == [listener.wait(2), listener.wait(0.15)]


def test_a_dead_listener_is_swept(tmp_path: Path) -> None:
    """A socket that a killed process has left is removed by the next wake-up; the living still hear it."""
    with closing(open_database(f"sqlite:///{tmp_path}/tenuto.db")) as database:
        dead = tmp_path / "wake" / "jobs.1.0"
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as left:
            left.bind(str(dead))
        with closing(database.listen("jobs")) as listener:
            database.wake("jobs")

            assert ["jobs"] == list(listener.wait(1))
            assert not dead.exists()
        assert ["wanted.jobs"] == [file.name for file in (tmp_path / "wake").iterdir()]


def test_a_deep_folder_can_be_listened_in(tmp_path: Path) -> None:
    """A path longer than a socket's may be works too."""
    folder = tmp_path / ("deep" * 30)
    with (
        closing(open_database("sqlite:///tenuto.db", folder=folder)) as database,
        closing(database.listen("jobs")) as listener,
    ):
        database.wake("jobs")

        assert listener.wait(HANG_S)


def test_closing_while_somebody_begins_to_listen_raises_nothing() -> None:
    """A thread that is just being made is either joined after its start or never started."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(1000):
            made = Notices(Servers("postgresql://127.0.0.1:1/nobody"))
            listening = threading.Thread(target=made.listen, args=("jobs",))
            listening.start()
            made.close()
            listening.join()
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("dialect", ["postgresql"])
def test_wake_ups_go_on_after_a_passing_lack_of_threads(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wakes does not notice, and whoever listens may try again; later wake-ups arrive."""
    refused = lacking(monkeypatch, "postgres-", 2)
    with (
        closing(open_database(empty_database_url)) as here,
        closing(open_database(empty_database_url)) as there,
    ):
        with pytest.raises(RuntimeError):
            there.listen("jobs")
        here.wake("jobs")
        with closing(there.listen("jobs")) as listener:
            until = time.monotonic() + HANG_S
            listener.wait(1.0)  # It may be told as soon as it listens.
            here.wake("jobs")
            while not (woken := listener.wait(1.0)) and time.monotonic() < until:
                pass

    assert ["postgres-listen", "postgres-notify"] == refused
    assert frozenset({"jobs"}) == woken
