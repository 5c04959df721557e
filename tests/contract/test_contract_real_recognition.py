"""The round trip through the public API alone, with real engines: what is spoken is recognised by both."""

import io
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import soundfile

from servers.callers import Caller, Operator
from servers.programs import run_program
from servers.recordings import encoded, recognise, result, texts
from servers.service import RunningService

DUAL = "tenuto/dual-recognition"
SAID = "Hold the note for its full value. The quick brown fox jumps over the lazy dog."

SCRIPT = Path(__file__).parents[1] / "browser" / "openai-real.mjs"

pytestmark = pytest.mark.real_engine


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A caller of a service with the real engines."""
    folder: Path = tmp_path_factory.mktemp("real")
    running = RunningService(folder / "data", engines="real")
    running.start()
    operator = Operator(running)
    yield operator.caller(credit="20")
    operator.close()
    running.stop()


def test_what_is_spoken_is_recognised_by_both_engines(real: Caller) -> None:
    """Speech made here comes back as text from both engines, each with its revision (R123–R128, R218)."""
    spoken = real.wait(real.submit(SAID, model="hexgrad/Kokoro-82M", lang="en"), timeout_s=120)
    wav = real.get(f"/v1/artifacts/{spoken['artifacts'][0]['id']}/content").content
    samples, rate = soundfile.read(io.BytesIO(wav), dtype="int16")
    job_id = recognise(real, encoded(samples, rate), model=DUAL, language="en")
    operation = real.wait(job_id, timeout_s=240)
    shown = result(real, operation)
    listed = {entry["id"]: entry["engines"] for entry in real.get("/v1/models").json()["data"]}
    engines = [
        {name: engine[name] for name in ("model_id", "model_revision")}
        for engine in shown["engines"].values()
    ]

    assert ["segment_text", "word_timestamps"] == [*shown["engines"]]
    assert listed[DUAL] == engines
    for role in shown["engines"]:
        assert words(SAID) == words(" ".join(texts(shown, role)))
    assert {"S01"} == {
        s["speaker"] for s in shown["engines"]["segment_text"]["segments"] if s["type"] == "speech"
    }


@pytest.mark.variant("program")
def test_openais_own_package_hears_what_it_has_spoken(real: Caller) -> None:
    """Spoken as MP3, heard from that MP3, both by OpenAI's routes; the language is detected."""
    import openai

    url = str(real.http.base_url).rstrip("/") + "/v1"
    with openai.OpenAI(base_url=url, api_key=real.key, timeout=600) as client:
        spoken = client.audio.speech.create(model="tts-1", voice="alloy", input=SAID).content
        heard = client.audio.transcriptions.create(
            model="whisper-1", file=("said.mp3", spoken), response_format="verbose_json"
        )

    assert words(SAID) == words(heard.text)
    assert "en" == heard.language
    assert 3 < heard.duration == pytest.approx((heard.segments or [])[-1].end, abs=1)


@pytest.mark.variant("program")
def test_openais_package_for_node_speaks_transcribes_and_draws(real: Caller) -> None:
    """The same by the package of npm's registry, and a picture of the size that was asked for."""
    address = str(real.http.base_url).rstrip("/") + "/v1"
    done = subprocess.run(
        ["node", str(SCRIPT)],
        env=os.environ | {"ADDRESS": address, "KEY": real.key, "SENTENCE": SAID},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)

    assert (words(SAID), "en") == (words(printed["text"]), printed["language"])
    assert 3 < printed["end"]
    assert [256, 256] == printed["size"]


@pytest.mark.variant("program")
def test_litellm_speaks_transcribes_draws_chats_and_embeds(real: Caller) -> None:
    """LiteLLM's own package makes every call that it has in common with us, and connects to nobody else."""
    missing = "needs LiteLLM, which `make test-all` installs in build/litellm"
    printed = run_program("litellm", real, SAID, missing)
    jobs = [real.get(f"/v1/jobs/{job_id}").json() for job_id in printed["jobs"]]

    assert ["fff3", "RIFF"] == printed["starts"]
    assert ["succeeded"] * 2 == [job["state"] for job in jobs]
    assert words(SAID) == words(printed["text"])
    assert 3 < printed["duration"]
    assert [256, 256] == printed["size"]
    assert "Paris" in printed["chat"]
    assert printed["chat"] == printed["streamed"] == printed["response"]
    assert 0 < printed["tokens"]
    assert ("response.created", "response.completed") == (printed["events"][0], printed["events"][-1])
    assert [384, 384] == printed["vectors"]
    assert 400 == printed["refused"]


@pytest.mark.variant("program")
def test_home_assistant_speaks_and_transcribes_through_wyoming_openai(real: Caller) -> None:
    """wyoming_openai runs beside the service, and the `wyoming` package calls it as Home Assistant does: a
    text whole, the same text word by word, and a recording."""
    missing = "needs wyoming_openai, which `make test-all` installs if Python 3.12 is here"
    printed = run_program("wyoming", real, SAID, missing)
    voices = [f"{voice} ({model})" for model in ("gpt-4o-mini-tts", "tts-1") for voice in ("alloy", "nova")]

    assert voices == sorted(printed["voices"], key=voices.index)
    assert [24_000, 2, 1] == printed["form"]
    assert all(3 < seconds < 10 for seconds in printed["seconds"])
    assert words(SAID) == words(printed["text"])


def words(text: str) -> list[str]:
    """The words without marks and capitals."""
    return re.findall(r"[a-z]+", text.lower())
