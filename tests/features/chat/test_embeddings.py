"""Reading an upstream's embeddings: other requests are answered while a large answer is read."""

import asyncio

import msgspec
import pytest

from servers.upstream import UpstreamServer
from tenuto.config import UpstreamSettings
from tenuto.features.chat.answers import Embeddings
from tenuto.features.chat.embeddings import MANY_INPUTS, UpstreamEmbeddings
from tenuto.features.chat.embeddings_body import EmbeddingRequest

COUNT, WIDTH = 1024, 1024


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
