"""`tenuto watch`: what arrives in a folder is done once, through restarts."""

import os
from pathlib import Path

import pytest

from client.test_batch import count
from client.test_sdk import sound
from client.test_verbs import Run, run
from servers.callers import ON_ONE_DATABASE, Caller
from servers.service import RunningService
from tenuto_client import inbox
from tenuto_client.inbox import SETTLE_S, Inbox

__all__ = ["run"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files need no time to settle."""
    monkeypatch.setattr(inbox, "SETTLE_S", 0.0)


@ON_ONE_DATABASE
@pytest.mark.usefixtures("quick")
def test_what_is_in_a_folder_is_done_once(
    run: Run, service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    """A recording and a text; again nothing; another name costs nothing, another content is new work."""
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
