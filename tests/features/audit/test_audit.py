"""The audit finds each corruption that it knows, by its name, and nothing in a healthy database."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from features.audit.corruptions import CORRUPTIONS
from servers.world import METERED, PRICE_MICROS, SPEECH, World, request_of
from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.features.audit import all_checks, runs
from tenuto.features.audit.all_checks import Position
from tenuto.features.audit.runs import Progress
from tenuto.features.chat import priced_calls as model_calls
from tenuto.features.chat.rows import CallRow
from tenuto.features.decoding.wav import pcm16_wav, read_pcm16_wav
from tenuto.features.history.rows import Used
from tenuto.features.kept_results import results as kept_results
from tenuto.features.kept_results.results import KeptResult
from tenuto.features.recognition import live_text
from tenuto.features.voices import operations as voices
from tenuto.file import inputs, uploads
from tenuto.job import audio_segments, chunks, states
from tenuto.job.queue import Claim
from tenuto.job.rows import ChunkKey, NewSegment
from tenuto.media.flac import FlacSummary

WAV = read_pcm16_wav(pcm16_wav(bytes(200), 8_000, 1))
HEARING = "fake/segment-text"
CHUNK = ChunkKey("segment_text", 0, 0, 160_000, "fake/segment-text", "1")


def test_a_corruption_is_found_by_its_name(broken_world: World) -> None:
    """Each way in which the rows of a check can disagree gives just its finding; before, there is none."""
    world = broken_world
    names = a_bit_of_everything(world)
    if world.database.dialect == "postgresql":
        drop_checks(world)
    assert [] == found(world)

    for name, corruption in ((name, one) for name, some in CORRUPTIONS.items() for one in some):
        assert {name, *corruption.also} == found_after(world, corruption.sql.format_map(names)), (
            corruption.sql
        )
    assert [] == found(world)


def test_every_check_has_its_corruption() -> None:
    """A check that no test has seen finding anything proves nothing."""
    assert {check.name for check in all_checks.CHECKS} == {*CORRUPTIONS}
    assert len(all_checks.CHECKS) == len(CORRUPTIONS)


def test_a_finding_is_a_line_to_act_on(broken_world: World) -> None:
    """It says who, what, what was seen, and what to do next; and the same for scripts."""
    world = broken_world
    claim = world.running()
    world.run("update job set hold_micros = 60000 where id = :id", id=claim.job_id)
    [finding] = [one for one in world.read(all_checks.audit) if one.check == "job_hold"]

    assert finding.summary().startswith(
        f"{claim.job_id}: the job has no hold, or one that differs from the frozen amount"
        " (hold_micros=60000 entry_held=50000) → `tenuto admin evidence"
    )
    assert {"hold_micros": 60_000, "entry_held": 50_000} == finding.plain["seen"]


def test_findings_are_bounded(broken_world: World) -> None:
    """A badly broken database gives a list that can be read."""
    world = broken_world
    caller = world.caller(1_000_000_000)
    for number in range(all_checks.MAX_FINDINGS + 5):
        world.submit(caller, f"key {number}")
    world.run("delete from event")

    assert ["job_events"] * all_checks.MAX_FINDINGS == found(world)


def test_what_is_old_is_judged_by_a_clock_that_is_trusted(world: World) -> None:
    """Without a moment nothing is called too old; with one, a day and the time that a sweep takes pass."""
    blob = world.blob()
    world.run(
        "insert into blob (id, size_bytes, sha256, block_crcs, created_at) values (:id, 5, 'x', 'x', :now)",
        id=blob.blob_id,
        now=world.now_ms,
    )
    age_ms = 26 * 3600 * 1000

    assert [] == world.read(all_checks.audit)
    assert [] == world.read(lambda tx: all_checks.audit(tx, now_ms=world.now_ms + age_ms))
    late = world.read(lambda tx: all_checks.audit(tx, now_ms=world.now_ms + age_ms + 1))
    assert [("blob_orphan", blob.blob_id)] == [(finding.check, finding.subject) for finding in late]


def test_an_audit_continues_where_it_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it stops, each row is looked at once, and each broken one is found once."""
    monkeypatch.setattr(all_checks, "PAGE_ROWS", 3)
    monkeypatch.setattr(all_checks, "PAGES_AT_ONCE", 2)
    caller = world.caller(1_000_000)
    made = [world.submit(caller, f"key {number}").job_id for number in range(10)]
    whole = all_checks.report(world.database)
    world.run("update job set event_sequence = 1 where id > :id", id=made[6])
    parts: list[all_checks.Report] = []
    position: Position | None = None
    while not parts or position is not None:
        asked = iter((False, True))
        part = all_checks.report(world.database, start=position, rest=lambda asked=asked: not next(asked))  # type: ignore[misc]
        parts.append(part)
        position = part.stopped_at
    world.run("update job set event_sequence = 0")
    rows: Counter[str] = Counter()
    for part in parts:
        rows.update(part.rows)
    subjects = [finding.subject for part in parts for finding in part.findings]

    assert 10 < len(parts)
    assert (10, whole.rows) == (rows["job"], dict(rows))
    assert made[7:] == subjects


def test_work_that_goes_on_between_two_snapshots_is_no_finding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No snapshot is held while the others' pages are read, so each page sees later records."""
    monkeypatch.setattr(all_checks, "PAGE_ROWS", 2)
    monkeypatch.setattr(all_checks, "PAGES_AT_ONCE", 1)
    caller = world.caller(1_000_000_000)
    claims: list[Claim] = []
    until_ms = world.now_ms + 20

    def work() -> bool:
        """One more job finishes, one begins, and one is accepted; 20 times, so that the audit catches up."""
        if world.now_ms == until_ms:
            return False
        if claims:
            world.finish(claims.pop().attempt_id)
        world.submit(caller, f"key {world.now_ms}")
        world.now_ms += 1
        claim = world.claim()
        assert claim is not None
        claims.append(claim)
        return True

    world.slots(2)
    for _ in range(3):
        work()
    report = all_checks.report(world.database, rest=work)

    assert [] == report.findings
    assert (20, until_ms) == (len(world.all("select id from job")), world.now_ms)


def test_an_audit_of_what_is_new_leaves_out_the_rest(world: World) -> None:
    """Rows of jobs that were accepted since then; what is broken among them is found, and nothing older."""
    caller = world.caller(1_000_000)
    old = world.submit(caller, "old").job_id
    world.now_ms += 10_000
    new = [world.submit(caller, f"new {number}").job_id for number in range(2)]
    world.run("update job set event_sequence = 1")
    report = all_checks.report(world.database, since_ms=world.now_ms - 5_000)
    world.run("update job set event_sequence = 0")

    assert new == [finding.subject for finding in report.findings if finding.check == "job_events"]
    assert old not in {finding.subject for finding in report.findings}
    assert {"job": 2, "event": 2, "entry": 2, "idempotency": 2} == {
        table: rows for table, rows in report.rows.items() if rows
    }


def test_one_worker_audits_in_an_hour(world: World) -> None:
    """The first that asks does it; when it dies meanwhile, the next hour's worker does it all (P3)."""

    def begin(worker_id: str) -> bool:
        return world.write(lambda tx: runs.begin(tx, worker_id, now_ms=world.now_ms))

    assert [True, False] == [begin("worker_a"), begin("worker_b")]
    assert world.read(runs.last) is None
    world.now_ms += runs.EVERY_MS
    assert [True, False] == [begin("worker_b"), begin("worker_a")]

    report = all_checks.report(world.database)

    def end(worker_id: str) -> None:
        world.write(lambda tx: runs.end(tx, worker_id, Progress(), report, rows=1, now_ms=world.now_ms))

    end("worker_a")
    assert world.read(runs.last) is None
    end("worker_b")
    last = world.read(runs.last)
    assert last is not None
    checks = [*(check.name for check in all_checks.CHECKS), all_checks.DATABASE_DAMAGED]
    assert (world.now_ms, dict.fromkeys(checks, 0)) == (last.ended_at, last.findings)


def test_a_beginning_in_the_future_does_not_count(world: World) -> None:
    """The clock was wrong, or is: no audit waits for years (P20)."""
    world.write(lambda tx: runs.begin(tx, "worker_a", now_ms=world.now_ms + 10**12))

    assert world.read(lambda tx: runs.is_due(tx, now_ms=world.now_ms))
    assert world.write(lambda tx: runs.begin(tx, "worker_b", now_ms=world.now_ms))


@pytest.mark.parametrize("before", [None, *states.EVENTS])
def test_the_order_of_events_is_that_of_the_states(before: str | None) -> None:
    """What may follow an event leads along a transition of the state it left, or stays where it is (P8)."""
    left = states.SUBMITTING if before is None else states.EVENTS[before]
    follow = {states.EVENTS[event] for event in states.EVENTS if states.may_follow(before, event)}
    stays = {states.RUNNING} if before == "running" else set()

    assert states.TRANSITIONS[left] | stays == follow


def a_bit_of_everything(world: World) -> dict[str, Any]:
    """A job in each state with all that jobs have, voices, uploads; the ids of their rows by name."""
    world.slots(2)
    other = world.caller()
    succeeded = world.running()
    segment_blob = show(world, succeeded)
    world.finish(succeeded.attempt_id)
    failed = world.running()
    world.fail(failed.attempt_id)
    recovering = world.running(METERED)
    world.fence(recovering.attempt_id)
    world.unknown(recovering.attempt_id)
    caller = world.caller()
    world.submit(caller, "late", model=METERED)
    late = claimed(world)
    world.fence(late.attempt_id)
    world.unknown(late.attempt_id)
    recorded = world.result()
    world.record(late.attempt_id, recorded)
    heard, _ = hear(world, caller)
    open_job, input_id = hear(world, caller, finish=False)
    world.release(open_job.attempt_id)
    running = world.running()
    world.write(lambda tx: live_text.add(tx, running.attempt_id, 0, ["Hold", " it."], now_ms=world.now_ms))
    made = KeptResult(b"sound", "audio/wav", {}, 10)
    world.write(lambda tx: kept_results.keep(tx, running.attempt_id, made, now_ms=world.now_ms))
    open_call, settled_call = called(world, caller), called(world, caller)
    used = Used(1, 3, 4)
    world.write(lambda tx: model_calls.settle(tx, world.ids, settled_call, used, now_ms=world.now_ms))
    voice_blob = own_voice(world, caller)
    artifact = world.row("select id, blob_id from artifact where job_id = :id", id=succeeded.job_id)
    return {
        "account": running.account_id,
        "other_account": other.account_id,
        "other_key": other.key_id,
        "succeeded": succeeded.job_id,
        "failed": failed.job_id,
        "recovering": recovering.job_id,
        "recorded_blob": recorded.blob.blob_id,
        "heard": heard.job_id,
        "open": open_job.job_id,
        "running": running.job_id,
        "open_call": open_call,
        "settled_call": settled_call,
        "artifact": artifact["id"],
        "blob": artifact["blob_id"],
        "segment_blob": segment_blob,
        "input": input_id,
        "voice_blob": voice_blob,
        "now": world.now_ms,
    }


def called(world: World, caller: Caller) -> str:
    """A call of a model with a price; it is open."""
    call_id = world.ids.new("call")
    row = CallRow(call_id, caller.account_id, caller.key_id, "there/chat", "open", 2_000_000, 8_000_000, 100)
    world.write(lambda tx: model_calls.begin(tx, world.ids, row, now_ms=world.now_ms))
    return call_id


def claimed(world: World) -> Claim:
    """The one job that waits."""
    claim = world.claim(models=frozenset({SPEECH, METERED, HEARING}))
    assert claim is not None
    return claim


def show(world: World, claim: Claim) -> str:
    """Two segments; gives the blob of the first."""
    blobs = [world.blob(), world.blob()]
    for sequence, blob in enumerate(blobs):
        new = NewSegment(world.ids.new("segment"), sequence, blob, 100)
        world.write(lambda tx, new=new: audio_segments.save(tx, claim.attempt_id, new, now_ms=world.now_ms))  # type: ignore[misc]
    return blobs[0].blob_id


def hear(world: World, caller: Caller, *, finish: bool = True) -> tuple[Claim, str]:
    """A recognition job at 0.05 CNY a minute with an upload of its own and a part, and its upload."""
    blob = world.blob()

    def upload(tx: Transaction) -> str:
        made = inputs.add_input(
            tx,
            world.ids,
            account_id=caller.account_id,
            media_type="audio/flac",
            blob=blob,
            summary=FlacSummary(16_000, 1, 160_000),
            now_ms=world.now_ms,
        )
        return uploads.bind_upload(
            tx,
            key_id=caller.key_id,
            idempotency_key=made,
            request_sha256="x",
            record_id=made,
            now_ms=world.now_ms,
        )

    input_id = world.write(upload)
    price = Price("audio_minute", PRICE_MICROS, 600_000)
    world.models[HEARING] = replace(world.models[HEARING], price=price)
    body = {"model": HEARING, "parameters": {}, "input_artifact_ids": [input_id]}
    world.send(request_of(caller, input_id, body))
    claim = claimed(world)
    world.write(lambda tx: chunks.add(tx, claim.attempt_id, CHUNK, {}, now_ms=world.now_ms))
    if finish:
        world.finish(claim.attempt_id)
    return claim, input_id


def own_voice(world: World, caller: Caller) -> str:
    """An own voice that is its account's preference; gives its blob."""
    blob, voice_id = world.blob(), world.ids.new("voice")

    def make(tx: Transaction) -> None:
        voices.create(
            tx,
            voice_id=voice_id,
            account_id=caller.account_id,
            kind="own",
            name="mine",
            languages=[],
            wav=WAV,
            blob=blob,
            key=None,
            now_ms=world.now_ms,
        )
        voices.save_preference(
            tx, account_id=caller.account_id, content_account="", voice_id=voice_id, now_ms=world.now_ms
        )

    world.write(make)
    return blob.blob_id


def found(world: World) -> list[str]:
    """The names of what the audit finds, as upkeep makes it with a clock that it trusts."""
    findings = world.database.snapshot(lambda tx: all_checks.audit(tx, now_ms=world.now_ms))
    return [finding.check for finding in findings]


class Spoilt(Exception):
    """Ends a transaction of which nothing is left."""


def found_after(world: World, sql: str) -> set[str]:
    """What the audit finds once these statements ran that the database's own constraints would refuse."""
    checks: set[str] = set()

    def spoil(tx: Transaction) -> None:
        for statement in (*UNGUARDED[world.database.dialect], *sql.split(";")):
            tx.do(statement)
        checks.update(finding.check for finding in all_checks.audit(tx, now_ms=world.now_ms))
        raise Spoilt

    with pytest.raises(Spoilt):
        world.write(spoil)
    return checks


UNGUARDED = {
    "sqlite": ["pragma defer_foreign_keys = on", "pragma ignore_check_constraints = on"],
    "postgresql": ["set local session_replication_role = replica"],
}


def drop_checks(world: World) -> None:
    """PostgreSQL can't be told to ignore them."""
    rows = world.all(
        """select conrelid::regclass::text as of_table, conname from pg_constraint where contype = 'c'
           and conrelid::regclass::text in ('entry', 'job', 'voice', 'account', 'model_call')"""
    )
    for row in rows:
        world.run(f"alter table {row['of_table']} drop constraint {row['conname']}")
