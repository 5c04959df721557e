"""The embedded chat model over HTTP: a service with real engines, and one whose weights were not pulled."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from servers.service import RunningService
from tenuto.config import load

pytestmark = pytest.mark.real_engine

MODEL = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
WEIGHT = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
CAPITAL = "What is the capital of France? Answer in one word."


def running(folder: Path, variables: dict[str, str]) -> Iterator[RunningService]:
    service = RunningService(folder / "data", engines="real", variables=variables)
    service.start()
    try:
        service.key = service.make_key()
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with the real engines."""
    yield from running(tmp_path_factory.mktemp("real-chat"), {})


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[RunningService]:
    """One whose cache has all weights but the chat model's."""
    pulled, cache = load({}).cache, tmp_path / "cache"
    (cache / ".verified").mkdir(parents=True)
    for path in (*pulled.iterdir(), *(pulled / ".verified").iterdir()):
        if not path.name.startswith((".", WEIGHT)):
            (cache / path.relative_to(pulled)).symlink_to(path)
    yield from running(tmp_path, {"TENUTO_CACHE": str(cache)})


@pytest.mark.variant("program")
def test_a_real_model_answers_openais_package(real: RunningService) -> None:
    """Whole and streamed, with the usage of the model's own tokenizer (R191, R195–R197)."""
    import openai  # Not above: it takes a second, which every process that collects this file would spend.

    with openai.OpenAI(base_url=real.url + "/v1", api_key=real.key, max_retries=0, timeout=120) as client:
        whole = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": CAPITAL}], temperature=0, max_tokens=16
        )
        pieces = list(
            client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": CAPITAL}],
                temperature=0,
                max_tokens=16,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        with pytest.raises(openai.BadRequestError, match="holds 8192"):
            client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "hello " * 9000}]
            )
    text = whole.choices[0].message.content
    streamed = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)

    assert text is not None
    assert "Paris" in text
    assert text == streamed
    assert whole.usage is not None
    assert whole.usage == pieces[-1].usage


def test_without_its_weights_the_model_is_listed_and_not_callable(bare: RunningService) -> None:
    """The catalog says why and how to fix it, and that it is a demo of half a billion parameters; a chat is
    answered with 503 and Retry-After (R189, R213)."""
    with bare.client() as client:
        listed = {entry["id"]: entry for entry in client.get("/v1/models").json()["data"]}
        body = {"model": MODEL, "messages": [{"role": "user", "content": CAPITAL}]}
        answer: httpx2.Response = client.post("/v1/chat/completions", json=body)

    assert (False, "its weights are not here: tenuto models pull") == (
        listed[MODEL]["callable"],
        listed[MODEL]["callable_reason"],
    )
    assert (True, 494_032_768) == (listed[MODEL]["demo"], listed[MODEL]["parameter_count"])
    assert (503, "model_unavailable") == (answer.status_code, answer.json()["error"]["code"])
    assert "retry-after" in answer.headers
