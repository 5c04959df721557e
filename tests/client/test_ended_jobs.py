"""Jobs that finished without a result, and odd ids: the id is kept, no second job is made (R225, R228,
R230)."""

import json
from pathlib import Path
from typing import Any

import pytest

from client.conftest import ARTIFACT, JOB, SOUND, accepted, content, succeeded, told
from client.test_verbs import Run, run
from servers.scripted import Asked, Reply, ScriptedService
from tenuto_client.commands import exits

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


@pytest.mark.parametrize("line", [("jobs", "wait", "--timeout", "0.1"), ("jobs", "download")])
def test_who_gave_up_waiting_learns_the_command_that_continues(line: tuple[str, ...], run: Run) -> None:
    """`tenuto resume` knows nothing of a job that was named by its id."""
    busy = Reply(503, FAILURE, {"Retry-After": "7300"})
    replies = [told("running", headers={"Retry-After": "300"}), busy, busy]
    with ScriptedService(replies) as service:
        code, _, err = run(*line, JOB, "-q", url=service.url)

    assert 6 == code and f"→ tenuto jobs {line[1]} {JOB}" in err


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
