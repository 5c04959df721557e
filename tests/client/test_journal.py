"""The journal by itself: what is on disk, when, and which program may use it."""

import asyncio
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from client.conftest import JOB, VirtualClock, accepted
from servers.scripted import LOST, Asked, Reply, ScriptedService
from tenuto_client import (
    AsyncTenuto,
    InvalidSetting,
    JournalError,
    Refused,
    ServiceUnreachable,
    Tenuto,
)
from tenuto_client.journal import RETENTION_S, Journal, digest

REFUSED = {"error": {"code": "invalid_request", "message": "No."}}


def entries(folder: Path) -> list[list[dict[str, object]]]:
    files = sorted(folder.glob("*.journal"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def test_all_is_on_disk_before_the_request_leaves_and_never_the_api_key(tmp_path: Path) -> None:
    """Key, exact bytes, address when it arrives there; the id once it is known; private (P9)."""
    found: list[list[dict[str, object]]] = []

    def answer(asked: Asked) -> Reply:
        found.extend(entries(tmp_path))
        assert asked.key is not None
        return accepted()

    with (
        ScriptedService([answer]) as service,
        Tenuto("tn_secret", service.url, journal=tmp_path) as tenuto,
    ):
        tenuto.speech.create("音", model="m")
        [asked] = service.asked
        [[first]] = found
        [lines] = entries(tmp_path)
        [file] = tmp_path.iterdir()
        entry = next(Journal(tmp_path).interrupted())

    assert (asked.key, service.url) == (first["key"], first["base_url"])
    assert asked.body == entry.body == '{"model":"m","parameters":{"text":"音"}}'.encode()
    assert {"operation_id": JOB} == lines[1] and JOB == entry.operation_id
    assert b"tn_secret" not in file.read_bytes()
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)


def test_a_submission_in_doubt_is_continued_by_the_same_call(tmp_path: Path, clock: VirtualClock) -> None:
    """The same bytes under the same key; other work has a key of its own; known work is new work. With
    another API key it would be another job: the person decides (P9, R228)."""
    with ScriptedService([LOST]) as dead:
        with (
            Tenuto("tn_a", dead.url, journal=tmp_path, max_retries=0, clock=clock) as tenuto,
            pytest.raises(ServiceUnreachable),
        ):
            tenuto.speech.create("x", model="m")
        with (
            Tenuto("tn_b", dead.url, journal=tmp_path, clock=clock) as tenuto,
            pytest.raises(JournalError) as other_key,
        ):
            tenuto.speech.create("x", model="m")
        dead._replies[:] = [accepted()]
        with Tenuto("tn_a", dead.url, journal=tmp_path) as tenuto:
            for text in ("other", "x", "x"):
                tenuto.speech.create(text, model="m")
        lost, other, continued, new = dead.asked

    told = (other_key.value.code, other_key.value.remedy)
    assert ("other_api_key", "tenuto resume --same-key") == told
    assert (lost.key, lost.body) == (continued.key, continued.body)
    assert continued.body == new.body and 3 == len({lost.key, other.key, new.key})


@pytest.mark.parametrize("status", [400, 401])
def test_what_was_refused_leaves_nothing(status: int, tmp_path: Path) -> None:
    with (
        ScriptedService([Reply(status, REFUSED)]) as service,
        Tenuto("tn_a", service.url, journal=tmp_path) as tenuto,
        pytest.raises(Refused),
    ):
        tenuto.speech.create("x", model="m")

    assert [] == entries(tmp_path)


@pytest.mark.parametrize("first", [LOST, Reply(504)])
@pytest.mark.parametrize("answer", [Reply(404, b"404 page not found"), Reply(302), Reply(401, REFUSED)])
def test_what_answers_in_place_of_the_service_leaves_the_doubt(
    first: Reply, answer: Reply, tmp_path: Path, clock: VirtualClock
) -> None:
    """A proxy may answer 404 after the job was accepted: the same call does not make another one (P2)."""
    with (
        ScriptedService([first, *[answer] * 5]) as service,
        Tenuto("tn_a", service.url, journal=tmp_path, clock=clock) as tenuto,
    ):
        with pytest.raises(Refused):
            tenuto.speech.create("x", model="m")
        service._replies[:] = [accepted()]
        tenuto.speech.create("x", model="m")

    assert 1 == len({asked.key for asked in service.asked})


def test_without_a_place_for_the_journal_nothing_is_sent(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"")
    with (
        ScriptedService([accepted()]) as service,
        Tenuto("tn_a", service.url, journal=place) as tenuto,
        pytest.raises(JournalError, match="nothing was sent"),
    ):
        tenuto.speech.create("x", model="m")

    assert [] == service.asked


def test_a_disk_that_fills_after_the_answer_makes_no_second_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's id cannot be noted: the error names the job, and the same call gets it again (P9)."""
    with (
        ScriptedService([accepted()]) as service,
        Tenuto("tn_a", service.url, journal=tmp_path) as tenuto,
        monkeypatch.context() as full,
    ):
        full.setattr("tenuto_client.journal.os.write", refuse_ids)
        with pytest.raises(JournalError, match=f"{JOB} was accepted.*No space left.*the same job") as error:
            tenuto.speech.create("x", model="m")
        full.undo()
        again = tenuto.speech.create("x", model="m")
        new = tenuto.speech.create("x", model="m")
        first, second, third = service.asked

    assert "nothing was sent" not in error.value.message and "tenuto resume" == error.value.remedy
    assert (JOB, JOB, first.key, first.body) == (again.id, new.id, second.key, second.body)
    assert third.key != first.key


def refuse_ids(descriptor: int, line: bytes, write: Any = os.write) -> int:
    """`os.write` on a disk that has no space for the id of a job."""
    if b"operation_id" in line:
        raise OSError(28, "No space left on device")
    return int(write(descriptor, line))


@pytest.mark.parametrize(("fsyncs", "left"), [(1, []), (2, []), (3, [JOB])])
def test_a_call_that_is_cancelled_on_a_slow_disk_leaves_no_entry_locked(
    fsyncs: int, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its entry is made, which is removed; while the job's id is noted, which then is noted."""

    async def cancelled(url: str) -> None:
        async with AsyncTenuto("tn_a", url, journal=tmp_path) as tenuto:
            call = asyncio.create_task(tenuto.speech.create("x", model="m"))
            await asyncio.to_thread(disk.is_busy.wait)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            disk.may_go_on.set()

    disk = SlowDisk(fsyncs)
    monkeypatch.setattr("tenuto_client.journal.os.fsync", disk.fsync)
    with ScriptedService([accepted()]) as service:
        asyncio.run(cancelled(service.url))
        sent = len(service.asked)

    assert (len(left), left) == (sent, [entry.operation_id for entry in Journal(tmp_path).interrupted()])
    assert len(left) == len(list(tmp_path.iterdir()))


class SlowDisk:
    """A disk whose fsync number `busy_at` takes until it may go on."""

    def __init__(self, busy_at: int) -> None:
        self.is_busy, self.may_go_on = threading.Event(), threading.Event()
        self._left = busy_at
        self._fsync = os.fsync

    def fsync(self, descriptor: int) -> None:
        self._left -= 1
        if self._left == 0:
            self.is_busy.set()
            assert self.may_go_on.wait(60)
        self._fsync(descriptor)


def test_a_torn_line_is_ignored_and_does_not_spoil_the_next(tmp_path: Path) -> None:
    """A crash in the middle of a write costs that line alone; an entry without a first line is none."""
    journal = Journal(tmp_path)
    entry = journal.begin("a" * 32, base_url="x")
    entry.release()
    with entry.path.open("ab") as file:
        file.write(b'{"operation_id": "job_')
    (tmp_path / f"{'b' * 32}-1.journal").write_bytes(b'{"key": "tor')
    [found] = journal.interrupted()
    found.note(operation_id=JOB)
    found.release()
    [again] = journal.interrupted()

    assert (entry.key, JOB) == (again.key, again.operation_id)


def test_an_entry_belongs_to_one_program_at_a_time(tmp_path: Path) -> None:
    """An open entry is hidden from others; once released it can be continued; once finished it is gone."""
    journal = Journal(tmp_path)
    entry = journal.begin("a" * 32)
    while_open = list(journal.interrupted())
    entry.release()
    [taken] = journal.interrupted("a" * 32)
    others = list(journal.interrupted("b"))
    taken.finish()

    assert ([], [], False) == (while_open, others, taken.is_new)
    assert [] == list(tmp_path.iterdir())


def test_old_jobs_of_scripts_are_forgotten_and_nothing_else(tmp_path: Path) -> None:
    """After 14 days: what was accepted and has no purpose. Doubts and purposes stay."""
    journal = Journal(tmp_path)
    known: dict[str, Any] = {"operation_id": JOB}
    facts = {"known": known, "doubt": {}, "purpose": {**known, "purpose": {"verb": "say"}}}
    for name, more in facts.items():
        entry = journal.begin(digest(name), name=name, **more)
        entry.release()
        os.utime(entry.path, (0, entry.path.stat().st_mtime - RETENTION_S - 60))
    journal = Journal(tmp_path)
    journal.begin(digest("new"), name="new").release()

    assert {"doubt", "purpose", "new"} == {entry.facts["name"] for entry in journal.interrupted()}


def test_what_a_script_saw_end_is_forgotten(tmp_path: Path) -> None:
    ended = Reply(200, {"id": JOB, "state": "failed", "artifacts": []})
    with (
        ScriptedService([accepted(), ended]) as service,
        Tenuto("tn_a", service.url, journal=tmp_path) as tenuto,
    ):
        job = tenuto.speech.create("x", model="m")
        before = len(entries(tmp_path))
        job.refresh()

    assert (1, 0) == (before, len(entries(tmp_path)))


def test_an_idempotency_key_must_be_one(tmp_path: Path) -> None:
    with Tenuto("tn_a", "http://127.0.0.1:1", journal=tmp_path) as tenuto:
        for key in ("", "é", "a\nb", "x" * 256):
            with pytest.raises(InvalidSetting):
                tenuto.speech.create("x", model="m", idempotency_key=key)

    assert [] == list(tmp_path.glob("*.journal"))
