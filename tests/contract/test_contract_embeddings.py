"""POST /v1/embeddings through an upstream: inputs, forms of vectors, refusals, what is recorded."""

import base64
import json
import struct
from typing import Any

import httpx2
import pytest

from servers.callers import Caller, Operator, error_code, faults
from servers.chats import THERE, used
from servers.openai_calls import package, post
from servers.upstream import PRIVATE, UpstreamServer
from tenuto.features.history.rows import Used

pytestmark = pytest.mark.variant("database", only="postgresql")


VECTORS = "there/vectors"


def ask(caller: Caller, value: Any) -> httpx2.Response:
    return post(caller, "/v1/embeddings", value)


def embed(caller: Caller, given: Any, **fields: Any) -> Any:
    """The answer to a request that succeeds."""
    answer = ask(caller, {"model": VECTORS, "input": given, **fields})
    assert (200, "application/json") == (answer.status_code, answer.headers["content-type"]), answer.text
    return answer.json()


def vector(number: float) -> list[float]:
    """What the upstream gives for its input of this number."""
    return [number, 0.5, -2.0]


@pytest.mark.parametrize(
    ("given", "count"),
    [("one", 1), (["one", "二つ"], 2), ([5, 0, 7], 1), ([[5], [6, 7]], 2)],
)
def test_inputs_go_there_unchanged_and_come_back_in_order(
    visitor: Caller, upstream: UpstreamServer, given: Any, count: int
) -> None:
    """Texts and tokens, one or several; the upstream answers in another order; nothing private comes back."""
    answer = embed(visitor, given, dimensions=3, user="ann", encoding_format=None)

    sent = {"model": "their-vectors", "input": given, "encoding_format": "float", "dimensions": 3}
    assert sent == upstream.seen.bodies[-1]
    assert "/v1/embeddings" == upstream.seen.paths[-1]
    expected = [{"object": "embedding", "index": n, "embedding": vector(n)} for n in range(count)]
    assert {
        "object": "list",
        "data": expected,
        "model": VECTORS,
        "usage": {"prompt_tokens": 4, "total_tokens": 4},
    } == answer
    assert PRIVATE not in json.dumps(answer)


@pytest.mark.parametrize("there", ["", "[up:other]"])
def test_vectors_have_the_form_that_was_asked_for(visitor: Caller, there: str) -> None:
    """Base64 of little-endian floats, or numbers, also where the upstream gives the other form."""
    packed, plain = (
        [one["embedding"] for one in embed(visitor, [there + "a", "b"], encoding_format=form)["data"]]
        for form in ("base64", "float")
    )

    assert [vector(0), vector(1)] == plain
    assert plain == [list(struct.unpack("<3f", base64.b64decode(one))) for one in packed]


def test_openais_own_package_embeds(visitor: Caller) -> None:
    """It asks for base64 by itself, and reads numbers from it; a wrong model is a 400, never a 404."""
    import openai

    client = package(visitor)
    made = client.embeddings.create(model=VECTORS, input=["one", "two"])

    assert [vector(0), vector(1)] == [one.embedding for one in made.data]
    assert (4, 4) == (made.usage.prompt_tokens, made.usage.total_tokens)
    with pytest.raises(openai.BadRequestError, match=VECTORS):
        client.embeddings.create(model="text-embedding-3-small", input="x")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"input": []}, [("input", "empty")]),
        ({"input": ["a", ""]}, [("input[1]", "empty")]),
        ({"input": ["a", 1]}, [("input[1]", "wrong_type")]),
        ({"input": [[1], [-1]]}, [("input[1]", "wrong_type")]),
        ({"input": ["a"] * 2049}, [("input", "wrong_length")]),
        ({"input": "x", "encoding_format": "int8"}, [("encoding_format", "not_allowed")]),
        ({"input": "x", "dimensions": 0}, [("dimensions", "out_of_range")]),
        ({"input": "x", "model": THERE}, [("model", "unknown_model")]),
    ],
)
def test_what_is_wrong_is_named(
    visitor: Caller, upstream: UpstreamServer, wrong: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """A 400 that says where and what would be right; nothing is sent anywhere."""
    before = len(upstream.seen.bodies)

    assert expected == faults(ask(visitor, {"model": VECTORS} | wrong))
    assert before == len(upstream.seen.bodies)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("context", (400, "invalid_request")),
        ("cut", (503, "model_unavailable")),
        ("fewer", (503, "model_unavailable")),
        ("words", (503, "model_unavailable")),
    ],
)
def test_an_upstreams_faults_are_ours_to_tell(
    visitor: Caller, upstream: UpstreamServer, fault: str, expected: tuple[int, str]
) -> None:
    """Each fault gets a status, never 500; a vector too few is none at all; nothing is sent twice."""
    before = len(upstream.seen.bodies)
    answer = ask(visitor, {"model": VECTORS, "input": [f"[up:{fault}]", "b"], "encoding_format": "base64"})

    assert expected == error_code(answer)
    assert PRIVATE not in answer.text
    assert before + 1 == len(upstream.seen.bodies)


def test_embeddings_are_recorded_as_chats_are(paid: Operator, visitor: Caller) -> None:
    """Calls and tokens as the upstream counts them, in the usage under a kind of their own; the catalog lists
    the model as what it is."""
    entry = next(one for one in visitor.get("/v1/models").json()["data"] if one["id"] == VECTORS)
    embed(visitor, "one")
    embed(visitor, ["one", "two"])
    recorded = used(paid, visitor, 2)
    [line] = visitor.get("/v1/usage").json()["data"]

    assert ("embedding", "embeddings", True) == (entry["kind"], entry["interface"], entry["callable"])
    assert {"dimensions", "encoding_format"} == set(entry["honoured_parameters"])
    assert {VECTORS: Used(calls=2, prompt_tokens=8, completion_tokens=0)} == recorded
    assert ("embedding", 2, 8, 0, "0.000000") == tuple(
        line[name] for name in ("kind", "chats", "prompt_tokens", "completion_tokens", "charged")
    )


def test_a_large_request_of_tokens_is_read(visitor: Caller) -> None:
    """A hundred thousand tokens are not too many values; half a million are."""
    assert 1000 == len(embed(visitor, [[7] * 100] * 1000)["data"])
    assert [("body", "too_many_values")] == faults(ask(visitor, {"model": VECTORS, "input": [7] * 500_000}))
