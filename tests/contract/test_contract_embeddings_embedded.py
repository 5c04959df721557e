"""The embedded embedding model over HTTP, by a service with real engines."""

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from servers.service import RunningService

pytestmark = pytest.mark.real_engine

MODEL = "intfloat/multilingual-e5-small"
TEXTS = ["How do I reverse a string?", "Wie kehre ich eine Zeichenkette um?", "The tide rises twice a day."]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with the real engines."""
    service = RunningService(tmp_path_factory.mktemp("real-vectors") / "data", engines="real")
    service.start()
    try:
        service.key = service.make_key()
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def client(real: RunningService) -> Iterator[httpx2.Client]:
    """With its key."""
    with real.client() as made:
        yield made


def refused(client: httpx2.Client, **fields: Any) -> list[tuple[str, str]]:
    answer = client.post("/v1/embeddings", json={"model": MODEL, "input": "x"} | fields)
    assert 400 == answer.status_code, answer.text
    return [(fault["param"], fault["code"]) for fault in answer.json()["error"]["details"]]


@pytest.mark.variant("program")
def test_openais_package_embeds_with_a_real_model(real: RunningService) -> None:
    """Numbers and base64 are the same vectors, and a translation is nearer than another subject."""
    import openai  # Not above: it takes a second, which every process that collects this file would spend.

    with openai.OpenAI(base_url=real.url + "/v1", api_key=real.key, max_retries=0, timeout=120) as client:
        packed = client.embeddings.create(model=MODEL, input=TEXTS)
        plain = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float", dimensions=384)
    [one, translated, other] = [entry.embedding for entry in plain.data]

    for entry, vector in zip(packed.data, (one, translated, other), strict=True):
        assert entry.embedding == pytest.approx(vector)
    assert 384 == len(one)
    assert _cosine(one, translated) > _cosine(one, other) + 0.05
    assert 0 < plain.usage.prompt_tokens == plain.usage.total_tokens


def test_what_the_model_cannot_do_is_named(client: httpx2.Client) -> None:
    """Shorter vectors, tokens of another model's, longer texts: 400 with the remedy, nothing is cut."""
    assert [("dimensions", "not_allowed")] == refused(client, dimensions=256)
    assert [("input", "not_allowed"), ("dimensions", "not_allowed")] == refused(
        client, input=[[1, 2]], dimensions=1
    )
    assert [("input", "too_long")] == refused(client, input=["a", "word " * 600])


def test_it_is_listed_and_its_use_is_counted(real: RunningService) -> None:
    """Free, with its limits; the tokens are those of the answer. Nothing else calls with that account."""
    with real.client(real.make_key("counted")) as client:
        [entry] = [one for one in client.get("/v1/models").json()["data"] if one["id"] == MODEL]
        answer = client.post("/v1/embeddings", json={"model": MODEL, "input": TEXTS}).json()

        assert ("embeddings", "embedding", True) == (entry["interface"], entry["kind"], entry["callable"])
        assert (384, 512) == (entry["limits"]["dimensions"], entry["limits"]["input_tokens"])
        assert "0.000000" == entry["pricing"]["price"]
        while not (lines := client.get("/v1/usage").json()["data"]):
            time.sleep(0.05)
    [line] = lines
    assert (MODEL, answer["usage"]["prompt_tokens"]) == (line["model"], line["prompt_tokens"])


def _cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
