"""Reading an upstream's embeddings: other requests are answered while a large answer is read."""

import asyncio
import json

import msgspec
import pytest

from servers.upstream import UpstreamServer
from tenuto.config import UpstreamSettings
from tenuto.features.chat.answers import Embeddings
from tenuto.features.chat.embeddings import MANY_INPUTS, UpstreamEmbeddings, embeddings
from tenuto.features.chat.embeddings_body import EmbeddingRequest

COUNT, WIDTH = 1024, 1024
FEWEST_TURNS = 8
"""Of the event loop, while an answer is read that takes a hundred milliseconds or more. In one step, even
in a thread, it would have one or two."""


def answer() -> bytes:
    """A vector for each input, some 20 MB in all."""
    vector = json.dumps([-0.123456789012345 - number / WIDTH for number in range(WIDTH)])
    entries = ",".join(f'{{"index": {number}, "embedding": {vector}}}' for number in range(COUNT))
    return f'{{"data": [{entries}], "usage": {{"prompt_tokens": 4}}}}'.encode()


async def turns_while_reading(content: bytes, request: EmbeddingRequest) -> int:
    """How often the event loop gets its turn until the answer is read."""
    reading = asyncio.ensure_future(asyncio.to_thread(embeddings, content, request))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0.001)
        turns += 1
    assert COUNT == len(reading.result().vectors)
    return turns


def test_a_large_answer_leaves_the_event_loop_its_turns() -> None:
    """No step holds the interpreter for longer than a vector takes."""
    request = EmbeddingRequest(model="a/b", input=["x"] * COUNT)

    assert asyncio.run(turns_while_reading(answer(), request)) >= FEWEST_TURNS


@pytest.mark.parametrize(("count", "form"), [(MANY_INPUTS, "float"), (MANY_INPUTS + 1, "base64")])
def test_numbers_of_many_inputs_are_asked_for_in_the_short_form(count: int, form: str) -> None:
    """2,048 vectors of 3,072 numbers would be too long for us, and the upstream's work for nothing (P3)."""
    server = UpstreamServer()

    async def embedded() -> Embeddings:
        engine = UpstreamEmbeddings("a/b", UpstreamSettings(server.url), None, timeout_s=60)
        try:
            return await engine.embed(EmbeddingRequest(model="a/b", input=["x"] * count))
        finally:
            await engine.close()

    made = asyncio.run(embedded())
    server.close()

    assert form == server.seen.bodies[0]["encoding_format"]
    assert [[number, 0.5, -2.0] for number in range(count)] == [
        msgspec.json.decode(one) for one in made.vectors
    ]
