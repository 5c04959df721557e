"""`tenuto watch`: what arrives in a folder is done once, through restarts."""

import os
from pathlib import Path

import pytest

from client.conftest import SOUND, VirtualClock, client, content, sound, succeeded
from client.test_batch import count
from client.test_verbs import Run, run
from servers.callers import ON_ONE_DATABASE, Caller
from servers.scripted import Asked, Reply, ScriptedService
from servers.service import RunningService
from tenuto_client import batch, inbox
from tenuto_client.batch import Plan
from tenuto_client.inbox import SETTLE_S, Inbox
from tenuto_client.lines import Line

__all__ = ["run"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "SETTLE_S", 0.0)


@ON_ONE_DATABASE
@pytest.mark.usefixtures("quick")
def test_what_is_in_a_folder_is_done_once(
    run: Run, service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    at = {"url": service.url, "key": caller.key}
    source = tmp_path / "in"
    source.mkdir()
    (source / "talk.wav").write_bytes(sound(1))
    (source / "note.txt").write_text("Hold the note.")
    (source / "latin.txt").write_bytes(b"\xff\xfe")
    (source / ".hidden.wav").write_bytes(sound(1))
    (source / "empty.wav").touch()
    (source / "picture.png").write_bytes(b"x")
    words = ("watch", "in", "-o", "out", "--to", "srt", "--to", "flac", "--once", "-q")
    first = run(*words, **at)
    (source / "latin.txt").unlink()
    jobs = count(caller)
    again = run(*words, **at)
    (source / "note.txt").rename(source / "renamed.txt")
    renamed = run(*words, **at)
    same = count(caller)
    (source / "renamed.txt").write_text("Hold it longer.")
    changed = run(*words, **at)
    beside = run("watch", "in", "-o", "in", **at)

    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert (1, 0, 0, 0, 2) == tuple(each[0] for each in (first, again, renamed, changed, beside))
    assert {"talk.wav.srt", "note.txt.flac", "renamed.txt.flac"} <= names
    assert ["out/note.txt.flac", "out/talk.wav.srt"] == sorted(first[1].split())
    assert (2, 2, 3) == (jobs, same, count(caller))


def test_a_file_is_taken_when_it_has_settled(tmp_path: Path) -> None:
    """Not while it grows, once for each content, and with --once nothing is forgotten."""
    now = 0.0
    box = Inbox(tmp_path, lambda: now, model="m", parameters={"language": "en"})
    path = tmp_path / "talk.wav"

    def scan(at: float) -> list[str]:
        nonlocal now
        now = at
        return [line.id for line in box.scan()]

    path.write_bytes(b"RIFF")
    started = scan(0.0)
    path.write_bytes(b"RIFF and more")
    grown = scan(SETTLE_S)
    waits = box.is_settled
    settled, again = scan(2 * SETTLE_S), scan(3 * SETTLE_S)
    os.utime(path, (1, 1))
    touched, later = scan(4 * SETTLE_S), scan(5 * SETTLE_S)

    assert ([], [], False, ["talk.wav"], []) == (started, grown, waits, settled, again)
    assert ([], ["talk.wav"], True) == (touched, later, box.is_settled)


def test_the_result_is_that_of_the_newest_content(clock: VirtualClock, tmp_path: Path) -> None:
    """A recording that was replaced while its first version was transcribed, which took longer: that one
    gets a number."""
    lines = [
        Line(number, "note.txt", "speech", {"text": text}, "m") for number, text in ((1, "Old."), (2, "New."))
    ]
    waiting = [lines[:1], lines[1:]]

    def answer(asked: Asked) -> Reply:
        if asked.method == "POST":
            job_id = "job_old" if b"Old." in asked.body else "job_new"
            return Reply(202, {"id": job_id, "state": "queued", "artifacts": []}, {"Retry-After": "1"})
        if asked.path.startswith("/v1/artifacts"):
            return content(SOUND if "old" in asked.path else SOUND[::-1])
        name = asked.path.rpartition("_")[2]
        if name == "old" and not (tmp_path / "note.txt.wav").exists():
            return Reply(200, {"id": "job_old", "state": "running", "artifacts": []}, {"Retry-After": "1"})
        done = succeeded(SOUND if name == "old" else SOUND[::-1]).body
        return Reply(200, {**done, "id": f"job_{name}", "artifacts": [{**done["artifacts"][0], "id": name}]})

    with ScriptedService([answer]) as service, client(service, clock) as tenuto:
        plan = Plan([], tmp_path, scan=lambda: waiting.pop(0) if waiting else [], is_over=lambda: not waiting)
        report = tenuto._session.run(batch.run(tenuto._session.link, plan))

    assert ["note.txt-2.wav", "note.txt.wav"] == [each.file for each in report.results]
    assert SOUND[::-1] == (tmp_path / "note.txt.wav").read_bytes()
    assert SOUND == (tmp_path / "note.txt-2.wav").read_bytes()
