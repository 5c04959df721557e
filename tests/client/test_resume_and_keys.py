"""`tenuto resume` after the environment names another service: a key is never sent to another service."""

import os
import time
from pathlib import Path

from client.conftest import SOUND, accepted, content, succeeded, told
from client.test_verbs import Run, run
from servers.scripted import Reply, ScriptedService
from tenuto_client import settings
from tenuto_client.settings import Credentials

__all__ = ["run"]


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


def test_a_refused_key_of_the_environment_is_named(run: Run) -> None:
    """It goes before the saved one, so logging in again would change nothing."""
    refusal = Reply(401, {"error": {"code": "invalid_api_key", "message": "The API key is wrong."}})
    with ScriptedService([refusal]) as service:
        settings.save(Credentials(service.url, "tn_saved"))
        from_environment = run("balance", url=service.url, key="tn_wrong")
        saved = run("balance", url=service.url, key="")

    assert 4 == from_environment[0] == saved[0]
    assert "unset TENUTO_API_KEY to use the saved key" in from_environment[2]
    assert saved[2].endswith("→ tenuto login\n")


def test_a_time_that_is_no_time_is_refused_at_once(run: Run) -> None:
    """`nan` seconds would never be over."""
    code, _, err = run("jobs", "wait", "job_x", "--timeout", "nan")

    assert 2 == code and "write seconds, for example 60" in err
