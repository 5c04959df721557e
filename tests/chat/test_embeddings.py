"""Reading an upstream's embeddings: other requests are answered while a large answer is read."""

import asyncio
import json

from tenuto.features.chat.embeddings import embeddings
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
