"""A feature of another package: its routes, its part of an API process, and what it says at the start."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenuto import config
from tenuto.api.app import make_app
from tenuto.db.database import Database
from tenuto.errors import OperatorError
from tenuto.feature import features
from tenuto.process import api as bootstrap

FEATURE = """
from tenuto.api.answers import json_answer
from tenuto.api.service import Part
from tenuto.feature import Feature

class Kept(Part):
    def __init__(self, service):
        self.told = []

    def start(self):
        self.told.append("start")

    async def end(self):
        self.told.append("end")

    def stop(self):
        self.told.append("stop")
        raise RuntimeError("it cannot stop")

    def beyond(self, nothing):
        async def answer(scope, receive, send):
            if scope["path"] != "/strange":
                return await nothing(scope, receive, send)
            await json_answer(200, "beyond").send(send, "req_1")
        return answer

    def around(self, app):
        async def placed(scope, receive, send):
            self.told.append(scope.get("path", ""))
            await app(scope, receive, send)
        return placed

async def show(call):
    return json_answer(200, call.service.part(Kept).told)

def routes(settings):
    return {"/v1/jobs": {"PUT": show}, "/v1/strange": {"GET": show}}

def announce(settings, database, address, *, now_ms):
    return [f"strange at {address}"]

FEATURE = Feature(
    name="strange",
    routes="strange_feature:routes",
    serving="strange_feature:Kept",
    announce="strange_feature:announce",
)
"""
ASKED = (("GET", "/v1/strange"), ("PUT", "/v1/jobs"), ("GET", "/strange"))


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "strange_feature.py").write_text(FEATURE)
    info = tmp_path / "strange-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: strange\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tenuto.features]\nstrange = strange_feature:FEATURE\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    features.cache_clear()
    yield
    features.cache_clear()


def test_a_feature_of_another_package_lives_in_an_api_process(database: Database, tmp_path: Path) -> None:
    settings = config.load({}, options={"folder": str(tmp_path), "engines": "fake"})
    service = bootstrap.build_service(settings, database, needs_worker=False)
    app = make_app(service)
    said: list[str] = []
    bootstrap.announce(settings, database, "127.0.0.1:1", said.append)

    async def ask(method: str, path: str) -> tuple[int, bytes]:
        sent: list[Any] = []
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": []}

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, asyncio.Event().wait, send)
        return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])

    async def live() -> list[tuple[int, bytes]]:
        steps = iter(("startup", "shutdown"))

        async def receive() -> Any:
            return {"type": f"lifespan.{next(steps)}"}

        async def send(message: Any) -> None:
            if message["type"] == "lifespan.startup.complete":
                answers.extend([await ask(*each) for each in ASKED])

        answers: list[tuple[int, bytes]] = []
        await app({"type": "lifespan"}, receive, send)
        return answers

    answers = asyncio.run(live())
    service.each_part("stop")  # What one part raises keeps no other from it.
    [kept] = [part for part in service.parts.values() if type(part).__module__ == "strange_feature"]

    assert "strange at 127.0.0.1:1" in said
    assert [
        (200, b'["","start","/v1/strange"]'),
        (200, b'["","start","/v1/strange","/v1/jobs"]'),
        (200, b'"beyond"'),
    ] == answers
    assert ["", "start", "/v1/strange", "/v1/jobs", "/strange", "end", "stop"] == vars(kept)["told"]


@pytest.mark.parametrize(
    ("source", "points", "sentence"),
    [
        (
            "raise RuntimeError('torn')",
            1,
            r"strange of another package cannot be loaded \(torn\)",
        ),
        (FEATURE, 2, "two of the installed features are called strange"),
        (
            FEATURE.replace('name="strange",', 'name="strange", needs=("gone",),'),
            1,
            "strange needs gone, which",
        ),
    ],
)
def test_a_feature_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, points: int, sentence: str
) -> None:
    """In one sentence, by any command that needs the features."""
    monkeypatch.delitem(sys.modules, "strange_feature", raising=False)
    (tmp_path / "strange_feature.py").write_text(source)
    lines = [
        "[tenuto.features]",
        *(f"{name} = strange_feature:FEATURE" for name in ("strange", "b")[:points]),
    ]
    (tmp_path / "strange-1.dist-info" / "entry_points.txt").write_text("\n".join(lines))

    with pytest.raises(OperatorError, match=sentence):
        features()
