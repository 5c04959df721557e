"""Every error message of the package is translated."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenuto_client
from client.test_verbs import Run, run
from tenuto_client.commands import words

__all__ = ["run"]

SOURCE = Path(tenuto_client.__file__).parent
ERRORS = {name for name in tenuto_client.__all__ if name[0].isupper()} | {"Lost"}
HAN = re.compile("[\u4e00-\u9fff]")


def messages() -> Iterator[tuple[str, str]]:
    """Where each error of the package is raised, and what it says; what is filled in is a word of Latin."""
    for file in [*SOURCE.glob("*.py"), *SOURCE.glob("commands/*.py")]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
                said = sample(node.args[0]) if node.args else None
                if said is not None:
                    yield f"{file.name}:{node.lineno}", said


def sample(node: ast.expr) -> str | None:
    """An example of the text; None if it is not a literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "nomen" for part in node.values)
    return None


def test_every_error_of_the_package_has_a_chinese_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands' own texts go through `t`; these are the errors that a program sees, too."""
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    words.is_chinese.cache_clear()
    found = dict(messages())
    translated = {where: words.translated(said) for where, said in found.items()}
    kept = {where: said.count("nomen") for where, said in translated.items()}
    words.is_chinese.cache_clear()

    assert 30 < len(found)
    assert [] == [found[where] for where, said in translated.items() if not HAN.search(said)]
    assert {where: said.count("nomen") for where, said in found.items()} == kept


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            ("balance", "--url", "http://127.0.0.1:1"),
            "无法连接服务：http://127.0.0.1:1 没有回答：连接被拒绝\n",
        ),
        (("balance", "--url", "ftp:x"), "'ftp:x' 不是服务地址；应写成 http://127.0.0.1:8080 的样子\n"),
        (("say", "x", "--pace", "fast"), "--pace 应是数字，不能是 'fast' (见 tenuto say -h)\n"),
        (("transcribe", "."), "录音无法使用：. 是文件夹；请写其中的文件名\n"),
    ],
)
def test_an_error_is_chinese_to_its_end(run: Run, line: tuple[str, ...], told: str) -> None:
    """No connection, a wrong address, no number, a folder: not a word of English is left in them."""
    _, _, said = run(*line, LC_ALL="zh_CN.UTF-8")

    assert f"tenuto: {told}" == said.splitlines(keepends=True)[-1]


@pytest.mark.parametrize(
    "line",
    [("say", "\udcff"), ("jobs", "list", "--model", "\udcff")],
)
def test_an_argument_that_is_no_text_is_refused_in_one_line(run: Run, line: tuple[str, ...]) -> None:
    chosen = ("--model", "m") if line[0] in ("say", "chat") else ()
    code, out, err = run(*line, *chosen, "-q", url="http://127.0.0.1:1")

    assert (2, "", "tenuto: a text contains '\\udcff', which cannot be written in UTF-8\n") == (
        code,
        out,
        err,
    )
