"""Embedded engines are not trusted: an invalid answer makes their model unavailable and is never a 500."""

import asyncio
import sys
from pathlib import Path

import pytest

from tenuto.config import Settings
from tenuto.errors import ModelUnavailable
from tenuto.features.chat.answers import Piece
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.embedded import EmbeddedChat
from tenuto.features.chat.messages import Message
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec
from tenuto.kind.model import models

ENGINE = """
from tenuto_engine import Result

class Engine:
    concurrency = 1
    info = {{"engine": "invalid"}}

    def __init__(self, options):
        pass

    def run(self, run):
        usage = {{"prompt_tokens": {prompt}, "completion_tokens": 1}}
        run.segment({segment}, usage)
        return Result("text/plain", b"", {{"finish_reason": {reason}, **usage}})
"""
VALID = {"segment": "b'Good'", "prompt": "1", "reason": "'stop'"}


async def answer(chat: EmbeddedChat) -> list[Piece]:
    request = ChatRequest(model="fake/chat", messages=(Message("user", "Hello."),))
    try:
        return [piece async for piece in chat.stream(request)]
    finally:
        await chat.close()


def chat_of(folder: Path, **parts: str) -> EmbeddedChat:
    """The fake chat model on an engine that answers with these parts."""
    (folder / "invalid.py").write_text(ENGINE.format(**VALID | parts))
    settings = Settings(folder=folder, engines="fake")
    spec = EngineSpec("invalid:Engine", sys.executable, path=str(folder))
    return EmbeddedChat(models(settings)["fake/chat"], settings, lambda _: ChildHost(spec))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("segment", r"b'\xff'"),
        ("prompt", "2**40"),
        ("prompt", "-1"),
        ("prompt", "'1'"),
        ("reason", "'tired'"),
    ],
)
def test_an_invalid_answer_makes_the_model_unavailable(tmp_path: Path, part: str, value: str) -> None:
    with pytest.raises(ModelUnavailable):
        asyncio.run(answer(chat_of(tmp_path, **{part: value})))


def test_a_valid_answer_of_the_same_engine_is_passed_on(tmp_path: Path) -> None:
    """So the tests above fail for the part that they change."""
    assert ["Good", ""] == [piece.text for piece in asyncio.run(answer(chat_of(tmp_path)))]
