"""Embeddings from an OpenAI-compatible server that the operator configured.

As with chats, requests and answers are rebuilt from the fields that are known here. Whether a server returns
numbers or base64, the result is in the requested form.

An answer may have millions of numbers. It is converted in a thread, one vector at a time, each from its own
JSON to its own JSON: no step holds the interpreter for longer than one vector takes, so other requests are
answered meanwhile.
"""

import asyncio

import msgspec

from tenuto.config import UpstreamSettings
from tenuto.features.chat.answers import Count, Embeddings, Usage
from tenuto.features.chat.embeddings_body import EmbeddingRequest
from tenuto.features.chat.upstream import Garbage, TooLong, Upstream, encode, whole
from tenuto.features.chat.vectors import in_form

PATH = "/embeddings"
MAX_BYTES = 48 * 1024 * 1024
"""The largest answer: 2,048 inputs of 3,072 numbers, as base64."""
MANY_INPUTS = 256
"""The vectors of more are asked for as base64, a third as long: the upstream charges them in any case."""


class _Embedding(msgspec.Struct):
    embedding: msgspec.Raw
    index: Count


class _Usage(msgspec.Struct):
    prompt_tokens: Count


class _Answer(msgspec.Struct):
    data: list[_Embedding]
    usage: _Usage


_ANSWER = msgspec.json.Decoder(_Answer)
_VECTOR = msgspec.json.Decoder(list[float] | str)


class UpstreamEmbeddings(Upstream):
    """An EmbeddingEngine (see `answers.py`). `key` is the upstream's secret: never shown or logged."""

    def __init__(self, name: str, upstream: UpstreamSettings, key: str | None, *, timeout_s: float) -> None:
        super().__init__(name, upstream, key, PATH, timeout_s=timeout_s)

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """The vectors. Raises InvalidRequest, RateLimited, ModelUnavailable, AnswerTooLong."""
        fields = [] if request.dimensions is None else ["dimensions"]
        async with self._answer(request_body(self._model, request), "input", fields) as response:
            try:
                answer = await whole(response, MAX_BYTES)
            except Garbage as error:
                raise TooLong from error
            return await asyncio.to_thread(embeddings, answer, request)


def request_body(model: str, request: EmbeddingRequest) -> bytes:
    """The request for the upstream, with its own name for the model."""
    form = "base64" if len(request.inputs) > MANY_INPUTS else request.encoding_format
    sent = {"model": model, "input": request.input, "encoding_format": form}
    return encode(sent if request.dimensions is None else sent | {"dimensions": request.dimensions})


def embeddings(answer: bytes, request: EmbeddingRequest) -> Embeddings:
    """The vectors of an answer. Raises Garbage or msgspec.DecodeError."""
    read = _ANSWER.decode(answer)
    ordered = sorted(read.data, key=lambda one: one.index)
    if [one.index for one in ordered] != list(range(len(request.inputs))):
        raise Garbage("not one vector for each input")
    return Embeddings(
        [in_form(_VECTOR.decode(one.embedding), request.encoding_format) for one in ordered],
        Usage(read.usage.prompt_tokens),
    )
