"""The table and the chart of `make race`, from figures made up here; nothing is measured."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from bench.contestants import DIALECT, TASKS
from bench.race_page import (
    Cost,
    DoorResult,
    Kill,
    Panel,
    Result,
    as_chart,
    as_chats,
    as_kills,
    as_models,
    as_table,
    panels_of,
    write,
)
from bench.stage import submissions

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


def test_a_service_with_paths_of_its_own_is_sent_the_same_bytes() -> None:
    """Only the path of the first line differs, and for those that take it as it is nothing does."""
    request = next(submissions("key", "POST /v1/jobs it is.", replays=0))
    sent = TASKS.submission(request)

    assert request == DIALECT.submission(request)
    assert request.partition(b"\r\n")[2] == sent.partition(b"\r\n")[2]
    assert b"POST /v1/jobs/submit HTTP/1.1" == sent.partition(b"\r\n")[0]


@pytest.fixture
def servers() -> list[DoorResult]:
    """Two servers of a model, of two rounds over ten seconds of sound each."""
    first, second = DoorResult("Tenuto, SQLite", sound_s=10.0), DoorResult("Peer <&>", sound_s=10.0)
    first.costs, second.costs = [Cost(1, 4.0, 6.0, 0.0), Cost(1, 2.0, 2.0, 0.0)], [Cost(1, 1.0, 8.0, 0.0)]
    first.answers_s, second.answers_s = {"a text": [0.5, 1.5, 1.0]}, {"a text": [2.0]}
    first.errors, second.errors = 0.0123, 0.05
    return [first, second]


def test_a_model_is_weighed_by_the_second_of_its_sound(servers: list[DoorResult]) -> None:
    """Medians over the rounds; words that are wrong are shown where words were counted."""
    first, second = as_models(servers).splitlines()[2:]
    spoken = [DoorResult(one.name, one.costs, [], one.answers_s, one.sound_s) for one in servers]

    assert "| Tenuto, SQLite | 0.400 | 0.300 | 1.00 | 1.2% | 0 |" == first
    assert "| Peer <&> | 0.800 | 0.100 | 2.00 | 5.0% | 0 |" == second
    assert "words wrong" not in as_models(spoken)
    assert "" == as_models([])


def test_a_chat_is_weighed_by_its_processor_time() -> None:
    """The flood of the middle round counts, and the calls of one client are those of all rounds."""
    chats = [DoorResult("Tenuto, SQLite", [Cost(1000, 1.0, 0.5, 0.0)], [0.001, 0.002, 0.009])]

    assert "| Tenuto, SQLite | 1000 | 500 | 2.0 / 9.0 | 0 |" == as_chats(chats).splitlines()[2]
    assert "" == as_chats([])


def test_the_chart_has_the_doors_that_were_measured(results: list[Result], servers: list[DoorResult]) -> None:
    """A panel for each; those without a figure have none."""
    [panel] = panels_of([], servers, [])
    image = ET.fromstring(as_chart(results, [panel]))
    bars = [float(bar.get("width", "0")) for bar in image.findall(f"{SVG}rect")[1:]]

    assert (
        Panel(
            "processor time of a second of speech", "s", False, [("Tenuto, SQLite", 0.4), ("Peer <&>", 0.8)]
        )
        == panel
    )
    assert 6 * len(results) + len(servers) == len(bars)
    assert 0.5 == pytest.approx(bars[-2] / bars[-1], rel=0.01)


def test_the_page_is_its_template_with_all_places_filled(results: list[Result], tmp_path: Path) -> None:
    """And the chart lies beside it."""
    template = (Path(__file__).parents[1] / "bench" / "race_page.txt").read_text("utf-8")
    places = dict.fromkeys(("table", "kills", "chat", "speech", "recognition"), "A table.")
    places |= {"about": "- Machine: one"}
    write(tmp_path / "race.md", tmp_path / "race.svg", as_chart(results), template, places)
    page = (tmp_path / "race.md").read_text("utf-8")

    assert (tmp_path / "race.svg").read_text("utf-8").startswith("<svg")
    assert "- Machine: one\n" in page
    assert not {"{" + name + "}" for name in places} & set(page.split())
