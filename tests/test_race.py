"""The table and the chart of `make race`, from figures made up here; nothing is measured."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from bench.race_page import Cost, Kill, Result, as_chart, as_kills, as_table, write

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def results() -> list[Result]:
    """Two contestants: one of three rounds, and one of which little is known."""
    first = Result("Tenuto", "PostgreSQL", processes=3, idle=0.0061, service_bytes=90 << 20, is_one=True)
    first.accepts = [Cost(100, 1.0, 0.05, 0.02), Cost(100, 0.5, 0.1, 0.05), Cost(200, 1.0, 0.1, 0.04)]
    first.alone_s = [0.002] * 99 + [0.05]
    first.kill = Kill(60, 20, 0, 8, 0, 3.25)
    second = Result("Peer <&>", "Redis", is_one=False, store_bytes=6 << 20)
    second.accepts = [Cost(100, 2.0, 0.1, 0.0)]
    second.kill = Kill(60, 21, 2, 0, 1, 120.0)
    return [first, second]


def test_the_table_has_medians_over_rounds(results: list[Result]) -> None:
    """The middle round counts: not the mean, not the best; processor time includes the store's."""
    rows = [line.strip("| ").split(" | ") for line in as_table(results).splitlines()]
    table = {row[0]: row[1:] for row in rows}

    assert ["200", "50"] == table["accept, 32 clients, jobs/s"]
    assert ["700 (200)", "1000 (0)"] == table["processor time of an accepted job, µs (store's part)"]
    assert ["2.0 / 50.0", "0.0 / 0.0"] == table["accept, 1 client, p50 / p99, ms"]
    assert ["0.61 %", "0.00 %"] == table["idle, of one core, store included"]
    assert ["90 (0)", "6 (6)"] == table["memory, MiB (store's part)"]
    assert ["1 job", "2 jobs"] == table["the same request twice makes"]


def test_a_service_that_lost_jobs_is_never_said_to_have_settled(results: list[Result]) -> None:
    """The patience is named instead of a time; without a probe there is no table."""
    lines = as_kills(results).splitlines()

    assert "| Tenuto | 60 | 20 | 0 | 8 | 0 | 3.2 s |" == lines[2]
    assert "| Peer <&> | 60 | 21 | 2 | 0 | 1 | not within 120 s |" == lines[3]
    assert "" == as_kills([Result("Tenuto", "SQLite")])


def test_the_chart_is_an_image_with_a_bar_to_scale_for_each(results: list[Result]) -> None:
    """Well-formed XML whatever a name holds; the first panel's bars are as 200 to 50."""
    image = ET.fromstring(as_chart(results))
    bars = [float(bar.get("width", "0")) for bar in image.findall(f"{SVG}rect")[1:]]

    assert 4.0 == pytest.approx(bars[0] / bars[1], rel=0.01)
    assert "Peer <&>" in [text.text for text in image.findall(f"{SVG}text")]


def test_the_page_is_its_template_with_all_places_filled(results: list[Result], tmp_path: Path) -> None:
    """And the chart lies beside it."""
    template = (Path(__file__).parents[1] / "bench" / "race_page.txt").read_text("utf-8")
    write(tmp_path / "race.md", tmp_path / "race.svg", results, ["Machine: one"], template)
    page = (tmp_path / "race.md").read_text("utf-8")

    assert (tmp_path / "race.svg").read_text("utf-8").startswith("<svg")
    assert "- Machine: one\n" in page
    assert not {"{about}", "{table}", "{kills}"} & set(page.split())
