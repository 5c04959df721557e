"""What the commands print: every message is translated, tables fit, and stdout may take nothing."""

import argparse
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tenuto_client
from client.test_verbs import Run, run
from servers.messages import names, reports_of, texts_of
from servers.service import TENUTO
from tenuto_client.commands import VERBS, words
from tenuto_client.commands import console as module
from tenuto_client.commands.console import Console
from tenuto_client.commands.exits import _HEADLINES
from tenuto_client.commands.parser import _MESSAGES
from tenuto_client.commands.zh import WORDS

__all__ = ["run"]

SOURCE = Path(tenuto_client.__file__).parent
ERRORS = {name for name in tenuto_client.__all__ if name[0].isupper()} | {"Lost"}
HAN = re.compile("[\u4e00-\u9fff]")


def test_every_error_of_the_package_has_a_chinese_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    words.is_chinese.cache_clear()
    files = [*SOURCE.glob("*.py"), *SOURCE.glob("commands/*.py")]
    said = {text for file in files for text in reports_of(file, dict.fromkeys(ERRORS, (0,)))}
    translated = {text: words.translated(text) for text in said}
    words.is_chinese.cache_clear()

    assert 30 < len(said)
    assert [] == [text for text in said if not HAN.search(translated[text])]
    assert [] == [text for text in said if text.count("nomen") != translated[text].count("nomen")]


def test_every_message_of_the_commands_has_its_chinese() -> None:
    used = {text for file in SOURCE.glob("commands/*.py") for text in texts_of(file)}
    used |= {command.about for command in VERBS.values()} | set(_HEADLINES.values())
    used |= {said for _, said in _MESSAGES}

    assert set() == used - set(WORDS)
    assert not [text for text, chinese in WORDS.items() if names(text) != names(chinese)]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            ("balance", "--url", "http://127.0.0.1:1"),
            "无法连接服务：http://127.0.0.1:1 没有回答：连接被拒绝\n",
        ),
        (("say", "x", "--pace", "fast"), "--pace 应是数字，不能是 'fast' (见 tenuto say -h)\n"),
        (("transcribe", "."), "录音无法使用：. 是文件夹；请写其中的文件名\n"),
    ],
)
def test_an_error_is_chinese_to_its_end(run: Run, line: tuple[str, ...], told: str) -> None:
    _, _, said = run(*line, LC_ALL="zh_CN.UTF-8")

    assert f"tenuto: {told}" == said.splitlines(keepends=True)[-1]


def test_an_argument_that_is_no_text_is_refused_in_one_line(run: Run) -> None:
    ended = run("say", "\udcff", "--model", "m", "-q", url="http://127.0.0.1:1")

    assert (2, "", "tenuto: a text contains '\\udcff', which cannot be written in UTF-8\n") == ended


@pytest.mark.parametrize(
    ("behind", "code", "told"),
    [
        ("> /dev/full", 1, "tenuto: stdout: No space left on device\n"),
        (">&-", 0, ""),
        ("| true; exit ${PIPESTATUS[0]}", 141, ""),
    ],
)
def test_a_stdout_that_takes_nothing_is_told_in_one_line(behind: str, code: int, told: str) -> None:
    """Who has no stdout wants none, and to a reader that has gone nothing is said."""
    shell = ["bash", "-c", f"(sleep 0.1; exec '{TENUTO}' admin adapters) {behind}"]
    done = subprocess.run(shell, env=os.environ | {"LC_ALL": "C.UTF-8"}, capture_output=True, text=True)

    assert (code, "", told) == (done.returncode, done.stdout, done.stderr)


def test_letters_that_the_encoding_lacks_are_written_as_their_numbers() -> None:
    environment = os.environ | {"LC_ALL": "zh_CN.UTF-8", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([TENUTO, "-h"], env=environment, capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)
    assert "\\u4fdd\\u5b58" in done.stdout


HEADINGS = ("job", "kind", "model", "state", "created", "charged", "title")
SPARED = ("model", "charged", "kind")
ENGLISH = "A long story about a quiet harbour in the winter, which goes on for ever"
CHINESE = "从前有一个安静的港口，冬天的时候船都停在那里，一直停到春天"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """A table of jobs on a terminal of this width: its lines."""
    monkeypatch.setattr(module, "_is_piped", lambda: False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    words.is_chinese.cache_clear()

    def show(columns: int, *titles: str) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        job = ("job_01jd4k0a3v6c8e9g2h5m7n0p1q", "recognition", "tenuto/whisper-dual", "succeeded")
        rows = [(*job, "2026-11-30 12:00:00", "0.05", title) for title in titles]
        Console(argparse.Namespace()).table(HEADINGS, rows, amounts=("charged",), spared=SPARED)
        return capsys.readouterr().out.splitlines()

    yield show
    words.is_chinese.cache_clear()


@pytest.mark.parametrize("columns", [80, 100, 120, 140])
def test_no_line_of_a_table_is_wider_than_the_terminal(columns: int, shown: Any) -> None:
    """Titles are cut with a sign that says so, Chinese ones by what they take; ids and states stay whole."""
    lines = shown(columns, ENGLISH, CHINESE)

    assert [] == [line for line in lines if module._width(line) > columns]
    assert all(line.endswith("…") and "job_01jd4k0a3v6c8e9g2h5m7n0p1q" in line for line in lines[1:])
    assert all("succeeded" in line and "2026-11-30 12:00:00" in line for line in lines[1:])
