"""`tenuto mcp` as the official client sees it: tools, files, progress, tasks, kills."""

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client
from mcp_types import (
    CallToolResult,
    ImageContent,
    ResourceLink,
    TextContent,
)

from client.assistant import connected, facts
from client.conftest import sound
from client.test_verbs import Run, run
from servers.callers import ON_ONE_DATABASE, Caller
from tenuto_client.errors import InvalidSetting, JournalError
from tenuto_client.session import link_to
from tenuto_mcp.arguments import SayToFile
from tenuto_mcp.folder import Folder
from tenuto_mcp.local import LocalDesk
from tenuto_mcp.works import Work

pytestmark = pytest.mark.variant("database", only="postgresql")

__all__ = ["run"]

MOST_BYTES = 130_000
"""Of an answer; an image of 64 KiB is 87 KB of base64."""
T = TypeVar("T")


def asking(folder: Path, ask: Any, *extensions: Any, **options: Any) -> Any:
    """What a client gets by these questions."""

    async def main() -> Any:
        async with connected(folder, *extensions, **options) as client:
            return await ask(client)

    return asyncio.run(main())


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("say", {}, "text: missing"),
    ("say", {"text": "x", "speed": 3}, "speed: input should be less than or equal to 2"),
    ("say", {"text": "x", "pitch": 3}, "pitch: unknown; choose from model"),
    ("say", {"text": "x", "voice": "Nobody"}, "voice: no voice of this name"),
    ("say", {"text": "x", "output": "x.png"}, "output: x.png should end in one of wav"),
    ("say", {"text": "x", "output": "x.wav", "format": "mp3"}, "output: x.wav should end in .mp3"),
    ("say", {"text": "x", "output": "taken.wav"}, "output: taken.wav exists"),
    ("say", {"text": "x", "output": "none/x.wav"}, "none/x.wav: no such folder"),
    ("say", {"text": "x", "output": "../x.wav"}, "../x.wav is outside of"),
    ("say", {"text": "x", "output": "out/x.wav"}, "out/x.wav is outside of"),
    ("say", {"text": "x", "output": "x\x00.wav"}, "this is not the name of a file"),
    ("transcribe", {"file": "none.wav"}, "none.wav: no such file"),
    ("transcribe", {"file": "/etc/passwd"}, "/etc/passwd is outside of"),
    ("transcribe", {"file": "sub/../../secret.wav"}, "secret.wav is outside of"),
    ("transcribe", {"file": "link.wav"}, "link.wav is outside of"),
    ("transcribe", {"file": "sub"}, "sub is a folder"),
    ("transcribe", {"file": "pipe.wav"}, "pipe.wav is not a regular file"),
    ("transcribe", {"file": ".tenuto/x.journal"}, "is in .tenuto"),
    ("transcribe", {"file": "text.wav"}, "text.wav cannot be read"),
    ("draw", {"prompt": "x", "width": 100}, "width: input should be greater than or equal to 256"),
    ("job", {"job_id": "job_none"}, "There is nothing under this id."),
    ("balance", {"account": "x"}, "account: unknown; this tool takes no arguments"),
    ("sing", {}, "there is no tool of this name; choose from say"),
]
"""A tool, its arguments, and what the answer says."""


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def test_every_tool_answers_with_files_links_and_small_previews(as_caller: Caller, folder: Path) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def ask(client: Client) -> list[CallToolResult]:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert ["say", "transcribe", "draw", "job", "voices", "models", "balance"] == names
        note = {"text": "Hold the note.", "output": "note"}
        said = await client.call_tool("say", note, progress_callback=progress)
        job = {"job_id": facts(said)["job_id"]}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("say", note),
            ("say", {"text": "Hold the note.", "output": "other.mp3", "take": 2}),
            ("draw", {"prompt": "a red sun", "width": 256, "height": 256}),
            ("transcribe", {"file": "note.wav", "format": "srt"}),
            ("job", job),
            ("job", job | {"output": "again.flac"}),
            ("voices", {"lang": "en", "search": "linda"}),
            ("models", {"kind": "speech"}),
            ("balance", {}),
        ]
        return [said, *[await client.call_tool(name, arguments) for name, arguments in calls]]

    results = asking(folder, ask)
    said, same, other, drawn, heard, shown, saved, voices, models, money = map(facts, results)
    files = {path.name: path.read_bytes()[:4] for path in folder.iterdir() if path.is_file()}

    assert {"note.wav", "other.mp3", "again.flac", drawn["file"], heard["file"]} == set(files)
    assert (b"RIFF", b"fLaC", b"\x89PNG") == (files["note.wav"], files["again.flac"], files[drawn["file"]])
    assert said == same == shown and other["job_id"] != said["job_id"] == saved["job_id"]
    assert heard["file"].endswith(".srt") and heard["text"] in (folder / heard["file"]).read_text()
    assert ["Linda"] == [one["name"] for one in voices["voices"]]
    assert {"speech"} == {one["kind"] for one in models["models"]}
    assert "CNY" == money["currency"]
    links = [block for block in results[0].content if isinstance(block, ResourceLink)]
    assert [(folder / "note.wav").as_uri()] == [link.uri for link in links]
    assert [True] == [isinstance(block, ImageContent) for block in results[3].content[2:]]
    assert all(len(result.model_dump_json()) < MOST_BYTES for result in results)
    assert seen == sorted(seen, key=lambda one: one[0]) and {100.0} == {total for _, total, _ in seen}
    assert 4 == len(as_caller.get("/v1/jobs").json()["data"])


@ON_ONE_DATABASE
def test_bad_input_gets_an_error_that_says_what_would_be_right(
    as_caller: Caller, folder: Path, tmp_path: Path
) -> None:
    """As the tool's result, which an assistant reads; nothing is submitted, charged or written."""
    (folder / "sub").mkdir()
    (folder / "taken.wav").write_bytes(b"mine")
    (folder / "text.wav").write_text("not a sound")
    os.mkfifo(folder / "pipe.wav")
    (tmp_path / "secret.wav").write_bytes(sound(1, 16_000, 1))
    (folder / "link.wav").symlink_to(tmp_path / "secret.wav")
    (folder / "out").symlink_to(tmp_path)
    before = sorted(path.name for path in folder.iterdir())

    async def ask(client: Client) -> list[CallToolResult]:
        return [await client.call_tool(tool, arguments) for tool, arguments, _ in WRONG]

    answers = asking(folder, ask)
    wrong = [
        (tool, arguments, text_of(answer))
        for (tool, arguments, text), answer in zip(WRONG, answers, strict=True)
        if not answer.is_error or text not in text_of(answer)
    ]

    assert [] == wrong
    assert sorted([*before, ".tenuto"]) == sorted(path.name for path in folder.iterdir())
    assert b"mine" == (folder / "taken.wav").read_bytes()
    assert [] == list((folder / ".tenuto").iterdir())
    assert [] == as_caller.get("/v1/jobs").json()["data"]


def desk_of(folder: Path) -> LocalDesk:
    named = Folder(folder)
    return LocalDesk(link_to(None, None, timeout=60, max_retries=5, journal=named.own, clock=None), named)


async def said(desk: LocalDesk, **words: Any) -> CallToolResult:
    work = await desk.call("say", SayToFile(text="Hold the note.", **words))
    assert isinstance(work, Work) and await work.until(lambda: work.is_done, 60)
    return work.result()


@ON_ONE_DATABASE
def test_a_result_that_has_become_a_link_is_not_followed(
    as_caller: Caller, folder: Path, tmp_path: Path
) -> None:
    (folder / "talk.wav").write_bytes(sound(1, 16_000, 1))
    secret = tmp_path / "secret.txt"
    secret.write_text("A secret.")

    async def ask(client: Client) -> CallToolResult:
        return await client.call_tool("transcribe", {"file": "talk.wav"})

    first = asking(folder, ask)
    saved = folder / facts(first)["file"]
    saved.unlink()
    saved.symlink_to(secret)
    again = asking(folder, ask)

    assert "A secret." not in str(again) and again.is_error
    assert 1 == len(as_caller.get("/v1/jobs").json()["data"])


@ON_ONE_DATABASE
def test_two_servers_that_begin_at_the_same_moment_make_no_two_jobs(
    as_caller: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has looked for the other before either has an entry: they look again, and one at most goes on.
    What arrives twice in one server is one job."""
    real, both = os.fsync, threading.Barrier(2)
    first_two = iter((both, both))

    def fsync(descriptor: int) -> None:
        if (barrier := next(first_two, None)) is not None:
            barrier.wait(60)
        real(descriptor)

    async def main() -> tuple[Any, ...]:
        desks = [desk_of(folder), desk_of(folder)]
        calls = [said(desk, model="fake/speech") for desk in desks]
        one, two = await asyncio.gather(*calls, return_exceptions=True)
        later = await asyncio.gather(*(said(desks[0], model="fake/speech") for _ in range(2)))
        return one, two, *later

    monkeypatch.setattr("tenuto_client.journal.os.fsync", fsync)
    one, two, later, same = asyncio.run(main())

    refused = [str(each) for each in (one, two) if isinstance(each, JournalError)]
    assert refused and {"another program is carrying out the same request"} == {
        each.partition(";")[0] for each in refused
    }
    assert facts(later) == facts(same)
    assert [facts(later)["job_id"]] == [job["id"] for job in as_caller.get("/v1/jobs").json()["data"]]
    assert 1 == len(list((folder / ".tenuto").iterdir()))


@pytest.mark.parametrize(
    "name",
    [
        *("new\nline.wav", "a\u202egnp.wav", "~a.wav", "below/.hidden.wav", ".below/a.wav", "a .wav/b .wav "),
    ],
)
def test_an_assistant_cannot_hide_or_disguise_a_file(name: str, tmp_path: Path) -> None:
    """No new file has a leading dot or a character that is not shown; the refusal shows it escaped."""
    for below in ("below", ".below", "a .wav"):
        (tmp_path / below).mkdir()
    with pytest.raises(InvalidSetting, match="cannot name a file") as refused:
        Folder(tmp_path).target(name)

    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [(("mcp", "."), 4, "tenuto login"), (("mcp", "."), 2, "pip install 'tenuto-client[mcp]'")],
)
def test_what_prevents_the_start_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...], code: int, text: str
) -> None:
    if "pip" in text:
        monkeypatch.setitem(sys.modules, "tenuto_mcp.stdio", None)
    ended, out, err = run(*line, key="")

    assert (code, "", 1) == (ended, out, err.count("\n")) and text in err
