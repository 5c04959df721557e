"""The service's audit of its own records: made by one worker, told by log and metric, in nobody's way."""

import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from structlog.testing import capture_logs

from servers.rig import Interrupted, Rig, T, eventually
from servers.speed import HANG_S
from servers.world import World
from tenuto.db.database import Transaction
from tenuto.features.audit import all_checks, hourly, runs
from tenuto.features.audit.all_checks import CHECKS, DATABASE_DAMAGED, Position
from tenuto.features.audit.runs import LastAudit
from tenuto.features.telemetry.api_metrics import RecordsCollector, read_records


def audited(rig: Rig, worker_id: str = "worker_us") -> LastAudit | None:
    """What the newest audit found, after this worker has made the one that is due, if any."""
    turn = rig.turn()
    turn.context = replace(rig.context, worker_id=worker_id)
    if hourly.is_ours(turn):
        hourly.make(turn)
    return rig.world.read(runs.last)


def metrics(world: World) -> dict[str, float]:
    """The samples of a scrape by name and label, those of the audit."""
    registry = CollectorRegistry()
    registry.register(
        RecordsCollector(lambda tx: read_records(tx, [], {}, away=(), now_ms=world.now_ms), world.database)
    )
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if line.startswith("tenuto_audit"))
    return {name: float(value) for name, value in samples}


def test_what_the_running_audit_finds_is_told(world: World, rig: Rig) -> None:
    """Before the first audit nothing is claimed; after it every check stands at 0. An error in the log names
    the check and the row, the metric counts: it can raise an alert (P3).
    """
    before = metrics(world)
    audited(rig)
    sound = metrics(world)
    claim = world.running()
    world.run("update job set event_sequence = event_sequence + 1 where id = :id", id=claim.job_id)
    world.now_ms += runs.EVERY_MS
    with capture_logs() as logs:
        last = audited(rig)
    counted = metrics(world)['tenuto_audit_findings{check="job_events"}']
    world.run("update job set event_sequence = event_sequence - 1 where id = :id", id=claim.job_id)

    assert {} == before
    assert (world.now_ms - runs.EVERY_MS) / 1000 == sound.pop("tenuto_audit_finished_timestamp_seconds")
    names = [DATABASE_DAMAGED, *(check.name for check in CHECKS)]
    assert {f'tenuto_audit_findings{{check="{name}"}}': 0.0 for name in names} == sound
    assert last is not None
    assert (1, 1.0) == (last.findings["job_events"], counted)
    assert [("job_events", claim.job_id, "error")] == [
        (line["check"], line["subject"], line["log_level"])
        for line in logs
        if line["event"] == "audit.finding"
    ]


@pytest.mark.parametrize("damaged", ["'{'", "'[]'", """'{"money": "many"}'""", "cast(x'7bff' as text)"])
def test_a_damaged_record_of_an_audit_stops_neither_metrics_nor_audits(
    world: World, rig: Rig, damaged: str
) -> None:
    """Metrics show no audit until the next one has finished, which starts over."""
    if "cast" in damaged and world.database.dialect != "sqlite":
        damaged = "'{'"  # PostgreSQL stores only text that is valid.
    audited(rig)
    world.run(f"update audit set findings = {damaged}, progress = {damaged}")
    between = metrics(world)
    world.now_ms += runs.EVERY_MS
    last = audited(rig)

    assert {} == between
    assert last is not None
    assert (world.now_ms, 0) == (last.ended_at, sum(last.findings.values()))


def test_rescues_go_on_while_it_looks(world: World, rig: Rig) -> None:
    """An audit of millions of rows takes minutes; a dead worker's job does not wait for it (P8)."""
    may_end = threading.Event()

    class Slow(Interrupted):
        """The real database, whose snapshots take as long as the test wants."""

        def snapshot(self, operation: Callable[[Transaction], T]) -> T:
            assert may_end.wait(HANG_S)
            return super().snapshot(operation)

    rig.context = replace(rig.context, database=Slow(world.database))
    rig.neighbour()
    upkeep = rig.upkeep()
    upkeep.do_due(0.0)
    claim = rig.running("worker_b")
    upkeep.do_due(0.5)
    state, unfinished = world.state(claim.job_id), world.read(runs.last)
    may_end.set()

    assert ("queued", None) == (state, unfinished)
    assert eventually(lambda: world.read(runs.last))


def test_what_an_hour_is_too_short_for_continues_in_the_next(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look through all records goes on, also by another worker."""
    for name, value in (("PAGE_ROWS", 2), ("PAGES_AT_ONCE", 4)):
        monkeypatch.setattr(all_checks, name, value)
    monkeypatch.setattr(hourly, "AUDIT_S", 0.0)
    claim = world.running()
    world.finish(claim.attempt_id)
    world.run("update job set event_sequence = event_sequence + 1 where id = :id", id=claim.job_id)
    world.now_ms += 10 * runs.EVERY_MS
    found: list[int] = []
    positions: list[Position | None] = []
    while positions.count(None) < 3:
        last = audited(rig, f"worker_{len(found)}")
        assert last is not None
        found.append(last.findings["job_events"])
        positions.append(world.read(runs.progress).position)
        if positions.count(None) == 1:
            world.run("update job set event_sequence = 2 where id = :id", id=claim.job_id)
        world.now_ms += runs.EVERY_MS
    seen, ends = found.index(1), [nth for nth, position in enumerate(positions) if position is None]

    assert 0 < seen < ends[0]
    assert [1] * (ends[1] - seen) == found[seen : ends[1]]
    assert [0] * (ends[2] - ends[1] + 1) == found[ends[1] :]


def test_what_is_new_is_audited_in_each_hour(world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far the look through all records has still to go."""
    monkeypatch.setattr(all_checks, "PAGES_AT_ONCE", 1)
    monkeypatch.setattr(hourly, "AUDIT_S", 0.0)
    audited(rig)
    world.now_ms += runs.EVERY_MS
    claim = world.running()
    world.run("update job set event_sequence = event_sequence + 1 where id = :id", id=claim.job_id)
    last = audited(rig)
    world.run("update job set event_sequence = event_sequence - 1 where id = :id", id=claim.job_id)
    progress = world.read(runs.progress)

    assert last is not None
    assert 1 == last.findings["job_events"]
    assert progress.position is not None
    assert {} == progress.found


def test_an_audit_that_is_stopped_says_nothing(world: World, rig: Rig) -> None:
    """What was looked at in part is no audit."""
    turn = rig.turn()
    turn.stopping.set()
    is_ours = hourly.is_ours(turn)
    hourly.make(turn)

    assert is_ours
    assert world.read(runs.last) is None
