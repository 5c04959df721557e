"""Jobs that ended without a result, or were interrupted, and odd ids: there is no second job (R228, R230)."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from client.conftest import ARTIFACT, JOB, SOUND, accepted, content, succeeded, told
from client.test_verbs import Run, run
from servers.scripted import Asked, Reply, ScriptedService
from tenuto_client import settings
from tenuto_client.commands import exits
from tenuto_client.settings import Credentials

__all__ = ["run"]

LINE = ("say", "x", "--model", "m", "-o", "x.wav")
OTHER = "job_01jd4k0zzzzzzzzzzzzzzzzzzz"
FAILURE = {"error": {"code": "engine_failed", "message": "out of tune"}}


def posts(service: ScriptedService) -> list[str | None]:
    return [asked.key for asked in service.asked if asked.method == "POST"]


@pytest.mark.parametrize(
    ("state", "fields", "code", "said"),
    [
        ("failed", FAILURE, 1, "engine_failed: out of tune"),
        ("cancelled", {}, 1, "was cancelled"),
        ("recovery_required", {}, 3, "keep the id"),
        ("succeeded", {}, 3, "without a result"),
    ],
)
def test_the_same_command_names_the_job_and_submits_nothing(
    state: str, fields: dict[str, Any], code: int, said: str, run: Run
) -> None:
    """The id is kept: `resume --list` shows it, `resume` submits nothing. Recovered by the operator, the job
    has its result after all, and the same command brings it (R228)."""
    with ScriptedService([accepted(Retry_After="1"), told(state, **fields)]) as service:
        first = run(*LINE, url=service.url)
        second = run(*LINE, url=service.url)
        listed = json.loads(run("resume", "--list", "--json", url=service.url)[1])
        run("resume", "-q", url=service.url)
        service._replies[:] = [succeeded(), content()]
        recovered = run(*LINE, url=service.url) if code == exits.RECOVERY else None
        keys = posts(service)

    assert (code, code, 1) == (first[0], second[0], len(keys))
    assert f"submitted before: {JOB}\n" in second[2] and said in second[2]
    assert [(JOB, state)] == [(entry["job"], entry["ended"]) for entry in listed]
    assert recovered is None or (0, "x.wav\n") == recovered[:2]
    assert ("--again" in second[2]) == (state in ("failed", "cancelled"))


@pytest.mark.parametrize("state", ["failed", "recovery_required"])
def test_again_makes_another_job_under_a_new_key(state: str, run: Run, tmp_path: Path) -> None:
    """Only when it is asked for; what the operator may still finish stays listed under its own id (R228)."""
    with ScriptedService([accepted(Retry_After="1"), told(state)]) as service:
        run(*LINE, url=service.url)
        service._replies[:] = [accepted(Retry_After="1"), succeeded(), content()]
        again = run(*LINE, "--again", url=service.url)
        keys = posts(service)
        left = json.loads(run("resume", "--list", "--json", url=service.url)[1])
        service._replies[:] = [Reply(500)]
        asked = len(service.asked)
        resumed = run("resume", url=service.url)

    assert (0, "x.wav\n", 2, 2) == (*again[:2], len(keys), len(set(keys)))
    assert SOUND == (tmp_path / "x.wav").read_bytes()
    assert ([JOB] if state == "recovery_required" else []) == [entry["job"] for entry in left]
    assert (0, 0) == (resumed[0], len(service.asked) - asked) and "nothing to resume" in resumed[2]


def test_again_never_leaves_a_job_that_may_still_run(run: Run) -> None:
    """An interrupted job is resumed, `--again` or not: one job, one key (R228, P9)."""
    with ScriptedService([accepted(Retry_After="1"), Reply(404, FAILURE)]) as service:
        cut_off = run(*LINE, url=service.url)
        service._replies[:] = [succeeded(), content()]
        again = run(*LINE, "--again", url=service.url)
        keys = posts(service)

    assert (2, 0, 1) == (cut_off[0], again[0], len(keys))


@pytest.mark.parametrize("odd", ["a/../b c?d#é", "..", "/etc/passwd", "a\0b\n", "j" * 400, "-rf", "thesis"])
def test_an_id_of_any_characters_names_a_new_file(odd: str, run: Run, tmp_path: Path) -> None:
    """One part of every path, one file in this folder, and no traceback; a file of that name stays (R230)."""

    def answer(asked: Asked) -> Reply:
        if asked.method == "POST":
            return Reply(202, {"id": odd, "state": "queued"})
        if asked.path == f"/v1/artifacts/{ARTIFACT}/content":
            return content()
        return succeeded(id=odd, kind="speech")

    (tmp_path / "thesis.wav").write_bytes(b"mine")
    with ScriptedService([answer]) as service:
        code, out, err = run("say", "x", "--model", "m", url=service.url)
        again = run("jobs", "download", "--", odd, url=service.url)

    [file] = [path for path in tmp_path.iterdir() if path.name != "thesis.wav"]
    assert (0, f"{file.name}\n") == (code, out) == again[:2] and ".wav" == file.suffix, err
    assert SOUND == file.read_bytes() and file.name[0] not in ".-~"
    assert b"mine" == (tmp_path / "thesis.wav").read_bytes()


def test_a_key_is_sent_to_no_other_service_than_its_own(run: Run) -> None:
    """Without a saved key the entry stays, with one line of error; with one, it is finished."""
    line = ("say", "Hold.", "--model", "m", "-o", "a.wav", "-q")
    replies = [accepted(), told("recovery_required"), succeeded(), succeeded(), content()]
    with ScriptedService(replies) as first, ScriptedService([told("queued")]) as second:
        begun, _, _ = run(*line, url=first.url, key="tn_first")
        refused = run("resume", url=second.url, key="tn_second")
        asked_by_then = len(first.asked)
        settings.save(Credentials(first.url, "tn_first"))
        resumed = run("resume", "-q", url=second.url, key="tn_second")
    keys = {asked.headers["authorization"] for asked in first.asked}

    assert (3, 2) == (begun, asked_by_then)
    assert (4, "") == refused[:2] and "TENUTO_API_KEY is for another service" in refused[2]
    assert (0, "a.wav\n", "") == resumed
    assert ({"Bearer tn_first"}, []) == (keys, second.asked)


def test_what_was_written_since_is_not_replaced(run: Run, tmp_path: Path) -> None:
    """The interrupted command named the file before somebody else's was there; its own result stays."""
    line = ("say", "Hold.", "--model", "m", "-o", "a.wav", "-q")
    replies = [accepted(), told("recovery_required"), succeeded(), content()]
    names = []
    for theirs in (b"made since", SOUND):
        with ScriptedService(list(replies)) as service:
            begun, _, _ = run(*line, url=service.url, key="tn_a")
            (tmp_path / "a.wav").write_bytes(theirs)
            os.utime(tmp_path / "a.wav", (time.time() + 60,) * 2)
            names.append(run("resume", "-q", url=service.url, key="tn_a")[1])

        assert (3, theirs) == (begun, (tmp_path / "a.wav").read_bytes())
    assert ["a-2.wav\n", "a.wav\n"] == names
