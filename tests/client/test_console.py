"""Tables and progress as a person sees them on a terminal."""

import argparse
from typing import Any

import pytest

from tenuto_client.commands import console as module
from tenuto_client.commands import words
from tenuto_client.commands.console import Console

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
