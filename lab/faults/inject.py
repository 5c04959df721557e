"""Carries out each kind of fault on a world, and reports whether it hit: misses are not counted."""

import resource
import signal
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
from lab.faults import plan
from lab.faults.bucket import TIMEOUT_S
from lab.faults.plan import Fault
from lab.faults.world import SILENCE_S, SPEECH_SLOTS, World

from servers.processes import family, is_alive, send
from servers.proxy import Towards

REACH_S = 2.5
"""How long an armed failpoint waits to be reached."""
FULL_S = 2.5
"""How long a disk stays full at most: longer than all tries of one write take together."""

LONG_STALLS = 0.5
STOPS_WORKER = 0.8
"""How often it is a worker alone that stops while something hangs; else it is all of `serve`."""
ENDS_S = 120.0
"""Only a process that never ends takes longer."""
_WRITTEN, _ENDED, _READ = b"Content-Length: 0\r\n", b"CompleteMultipartUploadResult", b"HTTP/1.1 20"
STORED = (_WRITTEN, _WRITTEN, _WRITTEN, _WRITTEN, _ENDED, _READ)
"""How the store's answers are distinguished."""

WAITS_FOR_A_DEATH = frozenset(
    {
        *("register.after_commit", "sweep.after_condemn"),
        *("rescue.before_commit", "rescue.after_commit", "rescue.verified"),
    }
)
"""Failpoints that are only reached after a worker died or started."""


def inject(world: World, fault: Fault) -> bool:
    """Carry it out. True if it hit; afterwards the fault is over and only its consequences remain."""
    return _KINDS[fault.kind](world, fault)


# --- processes -------------------------------------------------------------------------------------------


def _kill_one(pids: list[int], fault: Fault) -> bool:
    return bool(pids) and send(pids[int(fault.dice * len(pids))], signal.SIGKILL)


def _kill_worker(world: World, fault: Fault) -> bool:
    return _kill_one(world.workers(), fault)


def _kill_host(world: World, fault: Fault) -> bool:
    return _kill_one(world.hosts(), fault)


def _kill_api(world: World, fault: Fault) -> bool:
    api = world.api()
    return api is not None and send(api, signal.SIGKILL)


def _kill_all(world: World, fault: Fault) -> bool:
    there = world.everything()
    for pid in there:
        send(pid, signal.SIGKILL)
    return len(there) > 1


def _terminate(world: World, fault: Fault) -> bool:
    api = world.api()
    return api is not None and send(api, signal.SIGTERM)


def _stop_worker(world: World, fault: Fault) -> bool:
    """Past the silence, so that the other worker takes its attempts; then it comes back as a zombie."""
    workers = world.workers()
    if not workers:
        return False
    pid = workers[int(fault.dice * len(workers))]
    if not send(pid, signal.SIGSTOP):
        return False
    time.sleep(SILENCE_S + fault.seconds)
    send(pid, signal.SIGCONT)
    return True


# --- failpoints ------------------------------------------------------------------------------------------


def _at_place(world: World, fault: Fault, action: str) -> int | None:
    """Lay a shot, see to it that somebody may come by, and wait; gives who took it."""
    assert fault.place is not None
    nth = 1 if fault.place in WAITS_FOR_A_DEATH else fault.nth
    world.shots.arm(fault.place, f"{nth}:{action}")
    if fault.place == "rescue.verified":
        # Only a result that was recorded and not settled is verified.
        world.shots.arm("record.after_commit", "1:kill")
        world.shots.fired("record.after_commit", REACH_S)
    elif fault.place in WAITS_FOR_A_DEATH:
        _kill_worker(world, fault)
    return world.shots.fired(fault.place, REACH_S)


def _kill_at(world: World, fault: Fault) -> bool:
    return _at_place(world, fault, "kill") is not None


def _delay_at(world: World, fault: Fault) -> bool:
    return _at_place(world, fault, f"delay={fault.seconds:.2f}") is not None


def _fail_at(world: World, fault: Fault) -> bool:
    return _at_place(world, fault, f"raise={fault.error}") is not None


def _stop_at(world: World, fault: Fault) -> bool:
    """A worker is stopped for longer than the silence limit, other processes for a moment."""
    pid = _at_place(world, fault, "stop")
    if pid is None:
        return False
    is_api = pid == family(world.service).api
    time.sleep(fault.seconds if is_api else SILENCE_S + fault.seconds)
    if is_alive(pid):
        send(pid, signal.SIGCONT)
    return True


def _fill_disk(world: World, fault: Fault) -> bool:
    """No blob can be written by any process for this long."""
    until = time.monotonic() + fault.seconds * FULL_S
    place, hits = "blob.before_write", 0
    while time.monotonic() < until:
        world.shots.arm(place, "1:raise=ENOSPC")
        hits += world.shots.fired(place, until - time.monotonic()) is not None
    return hits > 0


def _limit(world: World, fault: Fault, kind: int, limit_of: Callable[[int], int]) -> bool:
    """Take something from every process of the service, as from its machine, and give it back."""
    before = {}
    for pid in [pid for pid in (world.api(), *world.workers()) if pid is not None]:
        with suppress(OSError):
            before[pid] = resource.prlimit(pid, kind)
            resource.prlimit(pid, kind, (limit_of(pid), before[pid][1]))
    time.sleep(fault.seconds * FULL_S)
    for pid, limits in before.items():
        with suppress(OSError):
            resource.prlimit(pid, kind, limits)
    return bool(before)


def _no_room(world: World, fault: Fault) -> bool:
    """The disk of the data folder is full, for records that lie there, too."""
    return _limit(world, fault, resource.RLIMIT_FSIZE, lambda pid: 0)


def _no_descriptors(world: World, fault: Fault) -> bool:
    """Nobody can open a file, a socket or a pipe, nor start a process."""
    return _limit(world, fault, resource.RLIMIT_NOFILE, lambda pid: len([*Path(f"/proc/{pid}/fd").iterdir()]))


# --- whatever hangs while a process stops ----------------------------------------------------------------


def _ends_meanwhile(world: World, fault: Fault) -> bool:
    """SIGTERM to a worker, or now and then to the whole `serve`, which has to end however much hangs."""
    pids, api = world.workers(), world.api()
    if fault.dice > STOPS_WORKER and api is not None:
        pids = [api]
    if not pids or not send(pid := pids[int(fault.dice * len(pids))], signal.SIGTERM):
        return False
    until = time.monotonic() + ENDS_S
    while is_alive(pid):
        if time.monotonic() > until:
            raise AssertionError(f"process {pid} does not end after SIGTERM")
        time.sleep(0.05)
    return True


def _hang_store(world: World, fault: Fault) -> bool:
    """For long enough that results wait for it."""
    world.store.proxy.stall()
    try:
        time.sleep(TIMEOUT_S + fault.seconds)
        return _ends_meanwhile(world, fault)
    finally:
        world.store.proxy.pass_on()


def _hang_database(world: World, fault: Fault) -> bool:
    assert world.database_proxy is not None
    world.database_proxy.stall()
    try:
        time.sleep(fault.seconds)
        return _ends_meanwhile(world, fault)
    finally:
        world.database_proxy.pass_on()


def _hang_inbox(world: World, fault: Fault) -> bool:
    with world.inbox.stopped():
        return _ends_meanwhile(world, fault)


def _hang_host(world: World, fault: Fault) -> bool:
    """The engines' processes stand still, as in a driver that waits for its device."""
    stopped = [pid for pid in world.hosts() if send(pid, signal.SIGSTOP)]
    try:
        return bool(stopped) and _ends_meanwhile(world, fault)
    finally:
        for pid in stopped:
            if is_alive(pid):
                send(pid, signal.SIGCONT)


def _hang_upstream(world: World, fault: Fault) -> bool:
    """A paid call of the campaign's own account has no answer: nobody makes it again, an operator decides."""
    job_id = world.own.submit("[fake:sleep=600] Asked.", model="fake/metered-speech")
    if job_id is None or not world.own.is_called(job_id):
        return False
    ends = [_ends_meanwhile(world, replace(fault, dice=dice)) for dice in (0.0, STOPS_WORKER)]
    if not world.own.comes_to(job_id, "recovery_required"):
        raise AssertionError(f"{job_id}, whose paid call was left, does not wait for an operator")
    world.own.recover("void", job_id, until="failed")
    return all(ends)


# --- rows ------------------------------------------------------------------------------------------------


def _damage(world: World, damage: str, repair: str, way: str) -> bool:
    """A job of the campaign's own account is damaged while it waits: it goes to the operator and affects no
    other."""
    for number in range(SPEECH_SLOTS):
        world.own.submit(f"[fake:sleep=0.6] Before the damaged one, {number}.")
    job_id = world.own.submit("To be damaged.")
    if job_id is None or not world.own.change(job_id, damage, state="queued"):
        return False
    if not world.own.comes_to(job_id, "recovery_required"):
        raise AssertionError(f"{job_id}, with {damage}, does not wait for an operator")
    world.own.change(job_id, repair, state="recovery_required")
    world.own.recover(way, job_id)
    if not world.own.comes_to(job_id, "succeeded"):
        raise AssertionError(f"{job_id} does not succeed after recover {way}")
    return True


def _unreadable_row(world: World, fault: Fault) -> bool:
    return _damage(world, "parameters = 'x' || parameters", "parameters = substr(parameters, 2)", "requeue")


def _wrong_price(world: World, fault: Fault) -> bool:
    """More than was held for it."""
    twice, half = (
        f"price_micros = price_micros {how} 2, hold_micros = hold_micros {how} 2" for how in ("*", "/")
    )
    return _damage(world, twice, half, "complete")


def _deaf_run(world: World, fault: Fault) -> bool:
    """Its engine does not look at the cancel; the runs beside it, in the same process, go on."""
    job_id = world.own.submit("[fake:hang] Deaf.")
    if job_id is None:
        return False
    is_running = world.own.comes_to(job_id, "running")
    world.own.cancel(job_id)
    if not world.own.comes_to(job_id, "cancelled"):
        raise AssertionError(f"{job_id} was cancelled, and is not")
    return is_running


# --- links -----------------------------------------------------------------------------------------------


def _cut_clients(world: World, fault: Fault) -> bool:
    return world.client_proxy.cut(is_reset=fault.dice < 0.5) > 0


def _cut_answer(world: World, fault: Fault) -> bool:
    """The client has sent all, the service has done it, the answer is lost: once more is a replay."""
    cuts = world.client_proxy.cuts()
    mark = (b"HTTP/1.1 202", b"HTTP/1.1 201", b"HTTP/1.1 200")[int(fault.dice * 3)]
    world.client_proxy.cut_at(mark, Towards.CLIENT, nth=fault.nth)
    hit = world.client_proxy.wait_cuts(cuts + 1, REACH_S)
    world.client_proxy.pass_on()
    return hit


def _cut_database(world: World, fault: Fault) -> bool:
    assert world.database_proxy is not None
    return world.database_proxy.cut(is_reset=fault.dice < 0.5) > 0


def _cut_commit(world: World, fault: Fault) -> bool:
    """PostgreSQL has committed, but the answer is lost."""
    assert world.database_proxy is not None
    cuts = world.database_proxy.cuts()
    world.database_proxy.cut_at(b"COMMIT\0", Towards.CLIENT, nth=fault.nth * 3)
    hit = world.database_proxy.wait_cuts(cuts + 1, REACH_S)
    world.database_proxy.pass_on()
    return hit


# --- a caller's server for messages ----------------------------------------------------------------------


def _kill_inbox(world: World, fault: Fault) -> bool:
    world.inbox.kill(fault.seconds)
    return True


def _refuse_inbox(world: World, fault: Fault) -> bool:
    world.inbox.refuse(fault.seconds)
    return True


# --- the store of bytes ----------------------------------------------------------------------------------


def _kill_store(world: World, fault: Fault) -> bool:
    world.store.kill(fault.seconds)
    return True


def _kill_all_and_store(world: World, fault: Fault) -> bool:
    return _kill_all(world, fault) and _kill_store(world, fault)


def _refuse_store(world: World, fault: Fault) -> bool:
    world.store.refuse(fault.seconds)
    return True


def _stall_store(world: World, fault: Fault) -> bool:
    """Every other time for longer than an answer is waited for."""
    world.store.stall(fault.seconds + (TIMEOUT_S if fault.dice < LONG_STALLS else 0.0))
    return True


def _cut_store(world: World, fault: Fault) -> bool:
    return world.store.proxy.cut(is_reset=fault.dice < 0.5) > 0


def _cut_stored(world: World, fault: Fault) -> bool:
    """The store has done it, but the answer is lost: mostly a write, or the end of a large one."""
    proxy = world.store.proxy
    cuts = proxy.cuts()
    proxy.cut_at(STORED[int(fault.dice * len(STORED))], Towards.CLIENT, nth=fault.nth)
    hit = proxy.wait_cuts(cuts + 1, REACH_S)
    proxy.pass_on()
    return hit


# --- databases -------------------------------------------------------------------------------------------


def _kill_database(world: World, fault: Fault) -> bool:
    world.kill_database()
    return True


def _halt_database(world: World, fault: Fault) -> bool:
    world.halt_database()
    return True


def _kill_all_and_database(world: World, fault: Fault) -> bool:
    return _kill_all(world, fault) and _kill_database(world, fault)


def _end_sessions(world: World, fault: Fault) -> bool:
    with psycopg.connect(world.session(), autocommit=True) as session:
        ended = session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'tenuto%'"
        ).fetchall()
    return len(ended) > 0


def _lock_rows(world: World, fault: Fault) -> bool:
    """Another session holds what submissions and attempts want, and asks for more in another order."""
    with psycopg.connect(world.session()) as session, suppress(psycopg.Error):
        session.execute("select 1 from account order by id desc for update")
        time.sleep(fault.seconds)
        session.execute("select 1 from slot order by lane desc, number desc for update")
        session.rollback()
    return True


def _lock_file(world: World, fault: Fault) -> bool:
    """Somebody who does not queue at our lock files: SQLite says that it is busy."""
    connection = sqlite3.connect(world.service.folder / "tenuto.db", isolation_level=None)
    with closing(connection) as session, suppress(sqlite3.OperationalError):
        session.execute("begin immediate")
        time.sleep(fault.seconds)
        session.execute("rollback")
        return True
    return False


_KINDS: Mapping[str, Callable[[World, Fault], bool]] = {
    plan.KILL_WORKER: _kill_worker,
    plan.KILL_HOST: _kill_host,
    plan.KILL_API: _kill_api,
    plan.KILL_ALL: _kill_all,
    plan.SIGTERM: _terminate,
    plan.STOP_WORKER: _stop_worker,
    plan.PLACE_KILL: _kill_at,
    plan.PLACE_STOP: _stop_at,
    plan.PLACE_ERROR: _fail_at,
    plan.PLACE_DELAY: _delay_at,
    plan.DISK_FULL: _fill_disk,
    plan.NO_ROOM: _no_room,
    plan.NO_DESCRIPTORS: _no_descriptors,
    plan.UNREADABLE_ROW: _unreadable_row,
    plan.WRONG_PRICE: _wrong_price,
    plan.DEAF_RUN: _deaf_run,
    plan.CUT_CLIENTS: _cut_clients,
    plan.CUT_ANSWER: _cut_answer,
    plan.KILL_DATABASE: _kill_database,
    plan.HALT_DATABASE: _halt_database,
    plan.KILL_ALL_AND_DATABASE: _kill_all_and_database,
    plan.CUT_DATABASE: _cut_database,
    plan.CUT_COMMIT: _cut_commit,
    plan.END_SESSIONS: _end_sessions,
    plan.LOCK_ROWS: _lock_rows,
    plan.LOCK_FILE: _lock_file,
    plan.KILL_STORE: _kill_store,
    plan.KILL_ALL_AND_STORE: _kill_all_and_store,
    plan.STALL_STORE: _stall_store,
    plan.REFUSE_STORE: _refuse_store,
    plan.CUT_STORE: _cut_store,
    plan.CUT_STORED: _cut_stored,
    plan.KILL_INBOX: _kill_inbox,
    plan.REFUSE_INBOX: _refuse_inbox,
    plan.HANG_STORE: _hang_store,
    plan.HANG_DATABASE: _hang_database,
    plan.HANG_INBOX: _hang_inbox,
    plan.HANG_HOST: _hang_host,
    plan.HANG_UPSTREAM: _hang_upstream,
}
