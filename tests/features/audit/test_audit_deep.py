"""The deep audit finds each damage to a real file and to the database itself, and nothing else."""

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers.postgres import PostgresServer
from servers.service import RunningService
from servers.world import World
from tenuto.features.audit.all_checks import SWEPT_WITHIN_MS, database_damage
from tenuto.features.audit.check import Finding
from tenuto.features.audit.deep import Rehashed, rehash, unreadable_jobs
from tenuto.file import operations as artifacts
from tenuto.file.blob import BLOCK_BYTES, BlobRecord
from tenuto.file.directory import DirectoryBlobs
from tenuto.file.operations import ORPHAN_AGE_MS

INDEX = "sqlite_autoindex_idempotency_1"
CONTENT = b"s" * (2 * BLOCK_BYTES) + b"end"


@dataclass
class Stored:
    """A world whose one job has a result of three blocks in a folder."""

    world: World
    blobs: DirectoryBlobs
    folder: Path
    record: BlobRecord
    job_id: str

    @property
    def file(self) -> Path:
        return self.folder / self.record.blob_id[-2:] / self.record.blob_id

    def found(self) -> list[Finding]:
        return list(rehash(self.world.database, self.blobs, Rehashed(), now_ms=self.world.now_ms))


@pytest.fixture
def stored(broken_world: World, tmp_path: Path) -> Iterator[Stored]:
    world, folder = broken_world, tmp_path / "blobs"
    blobs = DirectoryBlobs(folder)
    claim = world.running()
    record = blobs.write(world.ids.new("blob"), CONTENT)
    world.record(claim.attempt_id, world.result(blob=record))
    world.succeed(claim.attempt_id)
    os.utime(folder / record.blob_id[-2:] / record.blob_id, (0, 0))
    yield Stored(world, blobs, folder, record, claim.job_id)


@pytest.mark.parametrize(
    ("content", "check", "fault"),
    [
        (b"S" + CONTENT[1:], "blob_damaged", "Block 0 of {blob} does not match its checksum."),
        (CONTENT[:-1] + b"D", "blob_damaged", "Block 2 of {blob} does not match its checksum."),
        (CONTENT[:-1], "blob_damaged", "{blob} has 2097154 bytes instead of 2097155."),
        (CONTENT + b"!", "blob_damaged", "{blob} has 2097156 bytes instead of 2097155."),
        (b"", "blob_damaged", "{blob} has 0 bytes instead of 2097155."),
        (None, "blob_missing", "{blob} is not there."),
    ],
)
def test_a_damaged_file_is_found(stored: Stored, content: bytes | None, check: str, fault: str) -> None:
    """A flipped bit, a shorter, longer, empty or missing file: with the block, and who needs it (P5, P6)."""
    if content is None:
        stored.file.unlink()
    else:
        stored.file.chmod(0o600)
        stored.file.write_bytes(content)
    [finding] = stored.found()
    artifact = stored.world.row("select id from artifact")["id"]

    assert (check, stored.record.blob_id) == (finding.check, finding.subject)
    assert fault.format(blob=stored.record.blob_id) == finding.seen["fault"]
    assert {artifact, stored.job_id} < set(finding.seen["used_by"].split(","))
    assert f"{stored.record.blob_id}: the bytes" in finding.summary()


@pytest.mark.parametrize(
    "damage", ["parameters = '{'", "parameters = '[]'", "input_artifact_ids = 'x'", "kind = 'no such kind'"]
)
def test_an_unfinished_job_that_cannot_be_read_is_found(broken_world: World, damage: str) -> None:
    """Before a worker claims it; a damaged one that has ended needs nothing any more."""
    world, caller = broken_world, broken_world.caller()
    ended = world.running().job_id
    jobs = [world.submit(caller, f"key {number}").job_id for number in range(3)]
    sound = list(unreadable_jobs(world.database))
    for job_id in (ended, jobs[1]):
        world.run(f"update job set {damage} where id = :id", id=job_id)
    world.run("update job set state = 'failed' where id = :id", id=ended)
    [finding] = unreadable_jobs(world.database)

    assert [] == sound
    assert ("job_unreadable", jobs[1]) == (finding.check, finding.subject)


@pytest.mark.parametrize("change", ["sha256 = 'x'", "block_crcs = block_crcs || '00000000'"])
def test_a_row_that_its_bytes_do_not_match_is_found(stored: Stored, change: str) -> None:
    """Size and blocks may agree where the digest of the whole does not."""
    stored.world.run(f"update blob set {change}")

    assert ["blob_digest"] == [finding.check for finding in stored.found()]


def test_a_file_without_a_row_is_found_when_it_is_old(stored: Stored) -> None:
    """A write that goes on has no row yet; what is older than a day and a sweep was left behind (P14)."""
    world = stored.world
    extra = stored.blobs.write(world.ids.new("blob"), b"extra").blob_id
    unfinished = stored.folder / "zz" / f"{world.ids.new('blob')[:-2]}zz.tmp"
    unfinished.parent.mkdir(exist_ok=True)
    unfinished.write_bytes(b"half")
    (stored.folder / "zz" / "notes.txt").write_bytes(b"not ours")
    edge_s = (world.now_ms - ORPHAN_AGE_MS - SWEPT_WITHIN_MS) / 1000
    for file in (stored.folder / extra[-2:] / extra, unfinished):
        os.utime(file, (edge_s, edge_s))
    assert [] == stored.found()
    world.now_ms += 1000

    assert {("file_unknown", extra), ("file_unknown", unfinished.name.removesuffix(".tmp"))} == {
        (finding.check, finding.subject) for finding in stored.found()
    }


def test_what_goes_while_it_is_looked_at_is_no_finding(stored: Stored) -> None:
    """The sweep and erasures go on beside it: bytes that nobody wants any more are not missed."""
    orphan = stored.blobs.write(stored.world.ids.new("blob"), b"orphan")
    stored.world.write(lambda tx: artifacts.add_blob(tx, orphan, now_ms=0))

    @dataclass
    class SweptMeanwhile:
        """The real store, beside which the sweep takes the orphan as soon as it is asked for it."""

        real: DirectoryBlobs

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

        def read(self, record: BlobRecord, start: int = 0, end: int | None = None) -> Iterator[bytes]:
            if record == orphan:
                stored.world.write(lambda tx: artifacts.condemn_orphans(tx, now_ms=stored.world.now_ms))
                self.real.delete(orphan.blob_id)
            return self.real.read(record, start, end)

    swept = SweptMeanwhile(stored.blobs)
    findings = rehash(stored.world.database, swept, Rehashed(), now_ms=stored.world.now_ms)  # type: ignore[arg-type]

    assert [] == list(findings)


@pytest.fixture
def damaged(tmp_path: Path) -> RunningService:
    """An installation with an account and 50 idempotency keys, and one bit of their index flipped."""
    place = RunningService(tmp_path / "data")
    place.command("admin", "accounts", "create", "me")
    file = place.folder / "tenuto.db"
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executemany(
        "insert into idempotency values ('key_1', ?, 'sha', 'job_' || ?, 0)",
        [(f"request {number:02}", number) for number in range(50)],
    )
    connection.execute("pragma wal_checkpoint(truncate)")
    size = connection.execute("pragma page_size").fetchone()[0]
    [root] = connection.execute("select rootpage from sqlite_master where name = ?", (INDEX,)).fetchone()
    connection.close()
    content = bytearray(file.read_bytes())
    content[content.index(b"request 25", (root - 1) * size)] ^= 1
    file.write_bytes(content)
    return place


def test_a_flipped_bit_in_an_index_is_found(damaged: RunningService) -> None:
    """A resend would find no key and make a second job: the deep audit and doctor name the index (P2)."""
    deep = damaged.command("admin", "audit", "--deep", check=False)
    doctor = damaged.command("admin", "doctor", check=False).stdout
    database = damaged.open_database()
    hourly = database_damage(database, deep=False)
    database.close()

    assert 1 == deep.returncode
    assert INDEX in deep.stdout
    assert {"database_damaged"} == {finding.check for finding in hourly}
    assert "FAIL  database: is damaged: idempotency" in doctor


@pytest.mark.parametrize("amcheck", [True, False])
def test_a_row_that_its_index_does_not_find_is_found(
    postgres_server: PostgresServer, tmp_path: Path, amcheck: bool
) -> None:
    """PostgreSQL: by its own amcheck, or by looking up every row of a unique index (P2)."""
    name = f"unindexed_{int(amcheck)}"
    postgres_server.run(f"create database {name}")
    place = RunningService(tmp_path / "data", postgres_server.url(name))
    place.command("admin", "accounts", "create", "me")
    if amcheck:
        run(place, "create extension amcheck")
    live = "update pg_index set indisready = {} where indexrelid = 'idempotency_pkey'::regclass"
    run(place, live.format("false"))
    run(place, "insert into idempotency values ('key_1', 'request', 'sha', 'job_1', 0)")
    run(place, live.format("true"))
    deep = place.command("admin", "audit", "--deep", check=False)

    assert 1 == deep.returncode
    assert "idempotency_pkey: the database's own check reports damage" in deep.stdout


def run(place: RunningService, statement: str) -> None:
    """One statement, on a connection of its own, so that every plan and cache is a new one."""
    database = place.open_database()
    database.write(lambda tx: tx.do(statement))
    database.close()
