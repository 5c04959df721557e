"""The service with real engines through the public API alone: a sentence, a picture, a chat, a vector.

What each engine makes of its parameters is in tests/engines.
"""

import io
import json
import os
import re
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import soundfile

from servers.callers import Caller, Operator, faults, job
from servers.chats import body
from servers.cores import ENGINE_THREADS
from servers.openai_calls import package, post
from servers.programs import run_program
from servers.recordings import encoded, recognise, result, texts
from servers.service import RunningService
from tenuto.config import load
from tenuto.features.image.png import read_png

SPEECH = "hexgrad/Kokoro-82M"
DUAL = "tenuto/dual-recognition"
CHAT = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
CHAT_WEIGHT = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
VECTORS = "intfloat/multilingual-e5-small"
SAID = "Hold the note for its full value. The quick brown fox jumps over the lazy dog."
CAPITAL = "What is the capital of France? Answer in one word."
FEAR = [0, 0, 0, 1, 0, 0, 0, 0]
SCRIPT = Path(__file__).parents[1] / "browser" / "openai-real.mjs"

pytestmark = pytest.mark.real_engine


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """A caller of a service with the real engines."""
    folder = tmp_path_factory.mktemp("real")
    settings = folder / "tenuto.toml"
    settings.write_text(f'[models."{SPEECH}"]\nthreads = {ENGINE_THREADS}\n')
    yield from calling(folder, {"TENUTO_CONFIG": str(settings)})


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Caller]:
    """A caller of one whose cache has all weights but the chat model's."""
    pulled, cache = load({}).cache, tmp_path / "cache"
    (cache / ".verified").mkdir(parents=True)
    for path in (*pulled.iterdir(), *(pulled / ".verified").iterdir()):
        if not path.name.startswith((".", CHAT_WEIGHT)):
            (cache / path.relative_to(pulled)).symlink_to(path)
    yield from calling(tmp_path, {"TENUTO_CACHE": str(cache)})


def calling(folder: Path, variables: dict[str, str]) -> Iterator[Caller]:
    running = RunningService(folder / "data", engines="real", variables=variables)
    running.start()
    operator = Operator(running)
    try:
        yield operator.caller(credit="20")
    finally:
        operator.close()
        running.stop()


def made(caller: Caller, value: dict[str, Any]) -> tuple[Any, bytes]:
    """A job that has succeeded, and the bytes of its result."""
    operation = caller.wait(caller.post_job(value).json()["id"], timeout_s=240)
    assert "succeeded" == operation["state"], operation
    return operation, caller.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content").content


def listed(caller: Caller) -> dict[str, Any]:
    """The catalog's entries by their names."""
    return {entry["id"]: entry for entry in caller.get("/v1/models").json()["data"]}


def words(text: str) -> list[str]:
    """The words without marks and capitals."""
    return re.findall(r"[a-z]+", text.lower())


def test_what_is_spoken_is_recognised_by_both_engines(real: Caller) -> None:
    """Speech made here comes back as text from both engines, each with its revision (R123–R128, R218)."""
    _, wav = made(real, job(SAID, model=SPEECH, lang="en"))
    samples, rate = soundfile.read(io.BytesIO(wav), dtype="int16")
    job_id = recognise(real, encoded(samples, rate), model=DUAL, language="en")
    shown = result(real, real.wait(job_id, timeout_s=240))
    engines = [
        {name: engine[name] for name in ("model_id", "model_revision")}
        for engine in shown["engines"].values()
    ]

    assert ["segment_text", "word_timestamps"] == [*shown["engines"]]
    assert listed(real)[DUAL]["engines"] == engines
    for role in shown["engines"]:
        assert words(SAID) == words(" ".join(texts(shown, role)))
    assert {"S01"} == {
        s["speaker"] for s in shown["engines"]["segment_text"]["segments"] if s["type"] == "speech"
    }


@pytest.mark.variant("model")
def test_the_parameters_of_speech_reach_the_engine(real: Caller) -> None:
    """Twice as long at the same rate, to ten percent; an emotion, half of it, none of it, which is the same
    file as without, and one that is drawn (R75, R76, R78, R79, R83)."""

    def spoken(**parameters: Any) -> tuple[Any, bytes]:
        operation, content = made(
            real, job("She put it on the table.", model=SPEECH, lang="en", **parameters)
        )
        return operation["result"], content

    plain, slow = spoken(), spoken(duration_factor=2)[0]
    none = spoken(emo_vector=FEAR, emo_alpha=0)
    whole, half = (spoken(emo_vector=FEAR, emo_alpha=alpha)[0] for alpha in (1, 0.5))
    drawn = spoken(use_random=True)[0]["emotion"]

    assert plain[0]["sample_rate"] == slow["sample_rate"]
    assert abs(slow["duration_ms"] / plain[0]["duration_ms"] / 2 - 1) < 0.1
    assert plain[1] == none[1]
    assert {"fear": 1.0} == whole["emotion"]["strengths"]
    assert whole["emotion"]["pitch_semitones"] == 2 * half["emotion"]["pitch_semitones"]
    assert ("random", 1) == (drawn["source"], len(drawn["strengths"]))


def test_a_prompt_becomes_a_real_png(real: Caller) -> None:
    """The model's own size, the seed that was drawn, what was drawn, and the price (R138, R144–R146)."""
    value: Any = {"model": "tenuto/pictograms", "parameters": {"prompt": "两只猫"}}
    operation, content = made(real, value)
    [artifact] = operation["artifacts"]
    value["parameters"]["seed"] = artifact["metadata"]["seed"]
    [second] = made(real, value)[0]["artifacts"]

    assert (512, 512) == struct.unpack(">II", content[16:24])
    assert read_png(content)
    assert [{"phrase": "猫", "concept": "cat", "count": 2}] == artifact["metadata"]["drawn"]
    assert (artifact["sha256"], []) == (second["sha256"], second["metadata"]["warnings"])
    assert {"held": "0.000000", "charged": "0.050000", "currency": "CNY"} == operation["billing"]


@pytest.mark.variant("program")
def test_a_real_model_answers_openais_package(real: Caller) -> None:
    """Whole and streamed, with the usage of the model's own tokenizer (R191, R195–R197)."""
    asked: Any = {"model": CHAT, "messages": [{"role": "user", "content": CAPITAL}]}
    asked |= {"temperature": 0, "max_tokens": 16, "timeout": 120}
    with package(real) as client:
        whole = client.chat.completions.create(**asked)
        pieces = list(
            client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
        )
    text = whole.choices[0].message.content or ""

    assert "Paris" in text
    assert text == "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert whole.usage is not None and whole.usage == pieces[-1].usage
    assert "holds 8192" in post(real, "/v1/chat/completions", body("hello " * 9000, model=CHAT)).text


def test_without_its_weights_the_model_is_listed_and_not_callable(bare: Caller) -> None:
    """The catalog says why and how to fix it, and that it is a demo of half a billion parameters; a chat is
    answered with 503 and Retry-After (R189, R213)."""
    entry = listed(bare)[CHAT]
    answer = post(bare, "/v1/chat/completions", body(CAPITAL, model=CHAT))

    assert (False, "its weights are not here: tenuto models pull") == (
        entry["callable"],
        entry["callable_reason"],
    )
    assert (True, 494_032_768) == (entry["demo"], entry["parameter_count"])
    assert (503, "model_unavailable") == (answer.status_code, answer.json()["error"]["code"])
    assert "retry-after" in answer.headers


def test_a_real_model_embeds_what_it_can(real: Caller) -> None:
    """It is listed with its limits, its tokens are counted; shorter vectors, tokens of another model's and
    longer texts are a 400 with the remedy: nothing is cut."""

    def embed(**fields: Any) -> Any:
        return post(real, "/v1/embeddings", {"model": VECTORS, "input": "x"} | fields)

    entry = listed(real)[VECTORS]
    answer = embed(input=["How do I reverse a string?", "The tide rises twice a day."]).json()

    assert ("embeddings", "embedding", True) == (entry["interface"], entry["kind"], entry["callable"])
    assert (384, 512) == (entry["limits"]["dimensions"], entry["limits"]["input_tokens"])
    assert [384, 384] == [len(one["embedding"]) for one in answer["data"]]
    while not (lines := [x for x in real.get("/v1/usage").json()["data"] if x["model"] == VECTORS]):
        time.sleep(0.05)
    assert answer["usage"]["prompt_tokens"] == lines[0]["prompt_tokens"]
    assert [("dimensions", "not_allowed")] == faults(embed(dimensions=256))
    assert [("input", "not_allowed")] == faults(embed(input=[[1, 2]]))
    assert [("input", "too_long")] == faults(embed(input=["a", "word " * 600]))


@pytest.mark.variant("program")
def test_openais_package_for_node_speaks_transcribes_and_draws(real: Caller) -> None:
    """By the package of npm's registry, and a picture of the size that was asked for."""
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
