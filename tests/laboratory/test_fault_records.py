"""The record of the soak: what is kept of a life, which lives are left, and the page written from it."""

import time
from pathlib import Path

import pytest
from lab.faults.campaign import DRAWN, LIFE, Campaign
from lab.faults.life import Result
from lab.faults.plan import KILL_WORKER
from lab.faults.record import SUMMED, Entry, Record


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
