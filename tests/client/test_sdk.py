"""Both clients against the service as it is: every resource, and what goes wrong."""

import subprocess
import sys
import wave
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import tenuto_client
from client.conftest import sound
from servers.callers import Caller, Operator
from servers.scripted import Reply, ScriptedService
from servers.service import RunningService
from tenuto_client import (
    AuthenticationFailed,
    ChatInterrupted,
    Erased,
    IdempotencyConflict,
    InsufficientBalance,
    InvalidRequest,
    InvalidSetting,
    JobCancelled,
    JobFailed,
    NoModel,
    NotAllowed,
    NotConfigured,
    NotFound,
    Refused,
    Tenuto,
    TenutoError,
    UnexpectedAnswer,
)

pytestmark = pytest.mark.variant("database", only="postgresql")

ROOT = Path(__file__).parents[2]


def test_every_kind_of_work(service: RunningService, caller: Caller, tmp_path: Path) -> None:
    with Tenuto(caller.key, service.url) as client:
        spoken = client.speech.create("Hold.", lang="en", metadata={"chapter": "3"}).wait()
        drawn = client.images.create("A long note.", width=256, height=320, seed=7).wait()
        heard = client.recognition.create(sound(), language="en").json()
        said = client.chat.completions.create([{"role": "user", "content": "two words"}])
        pieces = list(client.chat.completions.create([{"role": "user", "content": "two words"}], stream=True))
        events = [event.type for event in spoken.events()]
        request = spoken.request()
        wav, png = spoken.read(), drawn.read()

    with wave.open(BytesIO(wav)) as opened:
        assert 24_000 == opened.getframerate()
    assert (256, 320, 7) == tuple(drawn.result[name] for name in ("width", "height", "seed"))  # type: ignore[index]
    assert b"\x89PNG" == png[:4]
    assert {"segment_text", "word_timestamps"} == set(heard["engines"])
    assert 16_000 == heard["audio"]["sample_rate"]
    assert said.content == "".join(piece.content for piece in pieces)
    assert said.usage == pieces[-1].usage
    assert ["queued", "running", "succeeded"] == events
    assert {"chapter": "3"} == request["metadata"] == spoken.operation.metadata


def test_jobs_are_listed_found_cancelled_and_erased(service: RunningService, caller: Caller) -> None:
    with Tenuto(caller.key, service.url) as client:
        first = client.speech.create("Hold.").wait()
        slow = client.speech.create("[fake:sleep=30] x")
        slow.cancel()
        with pytest.raises(JobCancelled) as cancelled:
            slow.wait()
        found = client.jobs.get(first.id)
        failed = client.speech.create("[fake:raise] x")
        with pytest.raises(JobFailed) as broken:
            failed.wait()
        states = [one.state for one in client.jobs.list(limit=3)]
        only = [one.id for one in client.jobs.list(state="succeeded", kind="speech")]
        older = [one.id for one in client.jobs.list(after=slow.id)]
        found.erase()
        with pytest.raises(Erased):
            found.read()

    assert (slow.id, "engine_failed") == (cancelled.value.job_id, broken.value.code)
    assert ["failed", "cancelled", "succeeded"] == states
    assert [first.id] == only == older


@pytest.mark.parametrize("journal", [True, False])
def test_a_recording_under_the_same_key_is_the_same_job(
    service: RunningService, caller: Caller, tmp_path: Path, journal: bool
) -> None:
    """As with a text: the second call names the input of the first one (P2)."""
    soundfile.write(tmp_path / "x.wav", np.zeros(16_000), 16_000)
    soundfile.write(tmp_path / "y.wav", np.zeros(17_000), 16_000)
    with Tenuto(caller.key, service.url, journal=journal) as client:
        first = client.recognition.create(tmp_path / "x.wav", idempotency_key="one")
        again = client.recognition.create(tmp_path / "x.wav", idempotency_key="one")
        with pytest.raises(IdempotencyConflict):
            client.recognition.create(tmp_path / "y.wav", idempotency_key="one")

    assert first.id == again.id


def test_errors_say_what_is_wrong_and_what_mends_it(
    service: RunningService, operator: Operator, caller: Caller
) -> None:
    poor, narrow = operator.caller(), operator.caller(models=["fake/image"])
    with Tenuto(caller.key, service.url) as client:
        with pytest.raises(InvalidRequest) as invalid:
            client.speech.create("x", top_p=7, voice_id="voice_none", model="fake/speech")
        client.speech.create("x", idempotency_key="one")
        with pytest.raises(IdempotencyConflict) as conflict:
            client.speech.create("y", idempotency_key="one")
        with pytest.raises(NotFound) as missing:
            client.jobs.get("job_none")
    with Tenuto(poor.key, service.url) as client, pytest.raises(InsufficientBalance) as unpaid:
        client.images.create("x")
    with Tenuto(narrow.key, service.url) as client:
        with pytest.raises(NotAllowed) as narrowed:
            client.speech.create("x", model="fake/speech")
        with pytest.raises(NoModel):
            client.speech.create("x")
    with Tenuto("tn_wrong", service.url) as client, pytest.raises(AuthenticationFailed) as unknown:
        client.models.list()
    raised: list[Refused] = [e.value for e in (invalid, conflict, missing, unpaid, narrowed, unknown)]

    assert [400, 409, 404, 403, 403, 401] == [error.status for error in raised]
    assert ["parameters.top_p", "parameters.voice_id"] == sorted(d["param"] for d in invalid.value.details)
    assert ["tenuto balance", "tenuto models", "tenuto login"] == [e.remedy for e in raised[3:]]
    assert all(error.request_id and error.code and isinstance(error, TenutoError) for error in raised)
    assert all(service.url not in str(error) or caller.key not in str(error) for error in raised)


def test_keys_come_from_arguments_variables_and_logins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenuto_client import settings

    with pytest.raises(NotConfigured) as none:
        Tenuto()
    file = settings.save(settings.Credentials("http://here:1", "tn_saved"))
    saved = settings.credentials()
    with pytest.raises(NotConfigured):
        Tenuto(base_url="http://there:2")
    monkeypatch.setenv("TENUTO_API_KEY", "tn_variable")
    monkeypatch.setenv("TENUTO_BASE_URL", "https://there:2/v1/")
    variable = settings.credentials()
    given = settings.credentials("tn_given", "http://x")
    for wrong in ("ftp://x", "x", "http://", "http://u:p@x", "http://x?y", "http://x:y"):
        with pytest.raises(InvalidSetting):
            Tenuto("tn_x", wrong)

    assert "tenuto login" == none.value.remedy
    assert [("http://here:1", "tn_saved"), ("https://there:2", "tn_variable"), ("http://x", "tn_given")] == [
        (one.base_url, one.api_key) for one in (saved, variable, given)
    ]
    assert (0o600, True) == (file.stat().st_mode & 0o777, home in file.parents)
    assert "tn_" not in repr(given) and "tn_given" not in repr(Tenuto("tn_given")._session.link)


EVENTS = {"Content-Type": "text/event-stream"}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}], "model": "m", "stream": True}


@pytest.mark.parametrize("body", [b"<html>", {"data": [{"name": "x"}]}, b"[" * 9])
def test_another_program_at_the_address_is_told(body: Any) -> None:
    with ScriptedService([Reply(200, body)]) as service, Tenuto("tn_x", service.url) as client:
        with pytest.raises(UnexpectedAnswer):
            client.models.list()
        for event in (b'{"choices": [5]}', b'{"usage": {"total_tokens": 1}}'):
            service._replies[:] = [Reply(200, b"data: " + event + b"\n\n", EVENTS)]
            with pytest.raises(UnexpectedAnswer):
                list(client.chat.completions.create(**CHAT))


def test_a_chat_that_breaks_off_is_told_and_never_asked_again() -> None:
    """Without an idempotency key a second try might be a second answer."""
    event = b'data: {"choices": [{"delta": {"content": "one"}}]}\n\n'
    with ScriptedService([Reply(200, event, EVENTS)]) as service, Tenuto("tn_x", service.url) as client:
        heard = client.chat.completions.create(**CHAT)
        first = next(iter(heard)).content
        with pytest.raises(ChatInterrupted):
            list(heard)

    assert ("one", 1) == (first, len(service.asked))


def test_the_public_surface_is_listed_once_and_costs_nothing_to_import() -> None:
    listed = {name for names in tenuto_client._HOMES.values() for name in names}
    script = "import sys, tenuto_client; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}

    assert listed == set(tenuto_client.__all__)
    assert not [name for name in listed if not getattr(tenuto_client, name).__doc__]
    assert not loaded & {"httpx2", "asyncio", "rich", "ssl", "numpy", "soundfile", "argparse", "tenuto"}


def test_the_asyncio_half_says_the_same_as_the_other() -> None:
    """It is made from it; what fails here wants `python scripts/async_twin.py`."""
    done = subprocess.run(
        [sys.executable, "scripts/async_twin.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )

    assert (0, "") == (done.returncode, done.stderr)
