"""The record of the soak: what is kept of a life, which lives are left, and the page written from it."""

import time
from pathlib import Path

import pytest
from lab.faults.campaign import DRAWN, LIFE, MOST_FINDINGS, Campaign
from lab.faults.life import Result
from lab.faults.plan import KILL_WORKER
from lab.faults.record import CHECKOUT, SUMMED, Entry, Record


def life(number: int, *findings: str, hits: int = LIFE, **more: object) -> Entry:
    """One on SQLite with seed 7."""
    result = Result(number * DRAWN)
    result.hit[KILL_WORKER] = hits
    result.findings = list(findings)
    return Entry("sqlite", 7, number, "abc", "2026-11-26", result, **more)  # type: ignore[arg-type]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """With lives 0 and 2 clean, and a finding in life 1."""
    made = Record(tmp_path / "soak.jsonl")
    for entry in (life(0), life(1, "P1: lost"), life(2)):
        made.add(entry)
    return made


def campaign(record: Record, wanted: int) -> Campaign:
    """One that has not begun."""
    return Campaign({"sqlite": wanted}, 7, record, record.file.parent, time.monotonic() + 600)


def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    """In another process, or in another checkout."""
    again = Record(record.file)

    assert [entry.dump() for entry in record.entries] == [entry.dump() for entry in again.entries]
    assert (200, 200, 0) == (again.faults(), again.faults("sqlite"), again.faults("s3"))


def test_a_long_finding_keeps_its_ends_and_no_path_of_the_machine(record: Record) -> None:
    """It is shortened in the middle, because a traceback ends with the error."""
    record.add(
        life(3, f'data.log: Traceback:\n  File "{CHECKOUT}packages/x.py"\n' + "  …\n" * 999 + "KeyError")
    )
    (kept,) = Record(record.file).entries[-1].result.findings

    assert kept.startswith('data.log: Traceback:\n  File "packages/x.py"')
    assert kept.endswith("KeyError")
    assert len(kept) < 610


def test_two_writers_lose_no_life(record: Record) -> None:
    """Each has read the file before the other wrote: both add a line."""
    other = Record(record.file)
    record.add(life(3))
    other.add(life(4))

    assert [0, 1, 2, 3, 4] == [entry.life for entry in Record(record.file).entries]


def test_clean_lives_are_not_run_again_and_one_with_a_finding_is(record: Record) -> None:
    """Of this seed and shape; a summed entry is not a life with a number."""
    record.add(life(SUMMED, seeds=(7,), lives=9))
    running = campaign(record, 2 * LIFE + 10)
    asked = [running._next("sqlite") for _ in range(4)]

    assert [(DRAWN, 100), (3 * DRAWN, 100), (4 * DRAWN, 10)] == [
        (each.first, each.wanted) for each in asked if each is not None
    ]
    assert asked[3] is None
    assert {0, 2} == record.clean("sqlite", 7)
    assert set() == record.clean("postgresql", 7) | record.clean("sqlite", 8)


def test_a_campaign_ends_after_some_findings_and_in_time(record: Record) -> None:
    """What comes after them tells nothing new."""
    running, late = campaign(record, LIFE), campaign(record, LIFE)
    running._findings = MOST_FINDINGS
    late.until = time.monotonic()

    assert [None, None] == [running._next("sqlite"), late._next("sqlite")]


def test_other_bytes_in_another_process_are_found(record: Record) -> None:
    """P6: the same work has the same bytes in every life of a shape."""
    running = campaign(record, LIFE)

    assert [] == running._unlike("sqlite", {"speech a": "1", "speech b": "2"})
    assert [] == running._unlike("s3", {"speech a": "3"})
    assert ["P6: speech a"] == [
        line.split(" has")[0] for line in running._unlike("sqlite", {"speech a": "4", "speech b": "2"})
    ]
