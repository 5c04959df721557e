"""Embeddings of an OpenAI-compatible server that the operator configured.

As in chats, requests and answers are rebuilt from the fields that are known here. What a server gives as
numbers or as base64 is turned into the form that was asked for.
"""

import base64
import math
import sys
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec

from tenuto.bodies.embeddings import EmbeddingRequest
from tenuto.chat.answers import Embeddings, Usage
from tenuto.chat.upstream import Count, Garbage, Upstream, encode, whole
from tenuto.config import UpstreamSettings

PATH = "/embeddings"
MAX_BYTES = 48 * 1024 * 1024
"""Of an answer: 2,048 inputs of 3,072 numbers, as base64."""


class _Embedding(msgspec.Struct):
    embedding: list[float] | str
    index: Count


class _Usage(msgspec.Struct):
    prompt_tokens: Count


class _Answer(msgspec.Struct):
    data: list[_Embedding]
    usage: _Usage


_ANSWER = msgspec.json.Decoder(_Answer)


class UpstreamEmbeddings(Upstream):
    """An EmbeddingEngine (see `answers.py`). `key` is the upstream's secret: never shown or logged."""

    def __init__(self, name: str, upstream: UpstreamSettings, key: str | None, *, timeout_s: float) -> None:
        super().__init__(name, upstream, key, PATH, timeout_s=timeout_s)

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """The vectors. Raises InvalidRequest, RateLimited, ModelUnavailable."""
        fields = [] if request.dimensions is None else ["dimensions"]
        async with self._answer(request_body(self._model, request), "input", fields) as response:
            return embeddings(await whole(response, MAX_BYTES), request)


def request_body(model: str, request: EmbeddingRequest) -> bytes:
    """The request for the upstream, under its own name of the model."""
    sent = {"model": model, "input": request.input, "encoding_format": request.encoding_format}
    return encode(sent if request.dimensions is None else sent | {"dimensions": request.dimensions})


def embeddings(answer: bytes, request: EmbeddingRequest) -> Embeddings:
    """The vectors of an answer. Raises Garbage or msgspec.DecodeError."""
    read = _ANSWER.decode(answer)
    ordered = sorted(read.data, key=lambda one: one.index)
    if [one.index for one in ordered] != list(range(len(request.inputs))):
        raise Garbage("not one vector for each input")
    turn: Any = _base64 if request.encoding_format == "base64" else _numbers
    return Embeddings([turn(one.embedding) for one in ordered], Usage(read.usage.prompt_tokens))


def _base64(vector: list[float] | str) -> str:
    numbers = _numbers(vector)
    if isinstance(vector, str):
        return vector
    floats = array("f", numbers)
    _check(floats)
    return base64.b64encode(_little_endian(floats).tobytes()).decode("ascii")


def _numbers(vector: list[float] | str) -> list[float]:
    if isinstance(vector, list):
        numbers = vector
    else:
        try:
            floats = array("f", base64.b64decode(vector, validate=True))
        except ValueError as error:
            raise Garbage("not base64 of 32-bit floats") from error
        numbers = _little_endian(floats).tolist()
    _check(numbers)
    return numbers


def _check(numbers: "Sequence[float]") -> None:
    if not numbers:
        raise Garbage("a vector without numbers")
    if not math.isfinite(sum(numbers)):
        raise Garbage("a number that is none, or beyond 32 bits")


def _little_endian(floats: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        floats.byteswap()
    return floats
