"""Every message of the package is translated."""

import re
from pathlib import Path

import pytest

import tenuto_client
from client.test_verbs import Run, run
from servers.messages import names, reports_of, texts_of
from tenuto_client.commands import VERBS, words
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
    """Each text in `t(…)`, each heading and each line about a verb, with the same names in braces."""
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
