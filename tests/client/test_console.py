"""Tables and progress as a person sees them on a terminal."""

import argparse
from types import SimpleNamespace
from typing import Any

import pytest

from tenuto_client.commands import console as module
from tenuto_client.commands import words
from tenuto_client.commands.account import _price
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


def test_columns_are_left_out_only_where_titles_need_their_room(shown: Any) -> None:
    """First the model; a wide terminal and short titles have all of it, uncut."""
    headings = [line[0].split() for line in (shown(200, ENGLISH), shown(120, ENGLISH), shown(120, "Hi"))]
    whole = shown(220, ENGLISH, CHINESE)

    assert [*HEADINGS] == headings[0] == headings[2]
    assert [name for name in HEADINGS if name != "model"] == headings[1]
    assert whole[1].endswith(ENGLISH) and whole[2].endswith(CHINESE)


def test_the_time_left_is_shown_only_while_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither before the first part nor after the last: no dashes stand there for a number."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    words.is_chinese.cache_clear()
    progress = module.Progress(Console(argparse.Namespace()))
    column = progress._start().columns[-1]
    progress.clear()
    states: list[dict[str, Any]] = [
        {"finished": False, "total": None, "time_remaining": None},
        {"finished": False, "total": 10, "time_remaining": None},
        {"finished": False, "total": 10, "time_remaining": 12},
        {"finished": True, "total": 10, "time_remaining": 0},
    ]
    told = [column.render(SimpleNamespace(finished_time=3.0, **state)).plain for state in states]
    words.is_chinese.cache_clear()

    assert ["", "", "left: 0:00:12", ""] == told


@pytest.mark.parametrize(
    ("pricing", "said"),
    [
        ({"price": "0.050000", "currency": "CNY", "unit": "job"}, "0.050000 CNY / job"),
        (
            {"price": "2.000000", "output_price": "8.000000", "currency": "CNY", "unit": "million_tokens"},
            "2.000000 + 8.000000 CNY / million_tokens",
        ),
        ({"price": "0.000000", "currency": "CNY", "unit": "job"}, "free"),
        (
            {
                "price": "0.000000",
                "output_price": "1.000000",
                "currency": "CNY",
                "unit": "million_tokens",
            },
            "0.000000 + 1.000000 CNY / million_tokens",
        ),
    ],
)
def test_a_model_that_costs_nothing_is_called_free(pricing: dict[str, str], said: str) -> None:
    """What is free has no unit."""
    assert said == _price(pricing)
