"""What the race shows: the statistics of a contestant, the table, the chart and the page. Knows no process.

The chart is SVG written here: one panel for each measure, bars to the scale of the panel's longest.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from lab.bench.report import quantile

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds and requests of one round; `store_s` is the part of its database or broker."""

    requests: int
    seconds: float
    service_s: float
    store_s: float

    @property
    def each_us(self) -> float:
        """Microseconds of the processor for one request, store included."""
        return (self.service_s + self.store_s) / self.requests * 1e6

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True)
class Kill:
    """What became of jobs whose service was killed while it ran them."""

    accepted: int
    ended_before: int
    lost: int
    """Accepted, and not done within the patience of the probe."""
    began_twice: int
    ended_twice: int
    """Ran to the end more than once."""
    settled_s: float
    """From the restart until all were done, or until the patience was over."""


@dataclass(slots=True)
class Result:
    """What was measured of one contestant, over all rounds."""

    name: str
    store: str
    processes: int = 0
    alone_s: list[float] = field(default_factory=list)
    """Answers to one client."""
    together_s: list[float] = field(default_factory=list)
    """Answers to 32 clients."""
    accepts: list[Cost] = field(default_factory=list)
    polls: list[Cost] = field(default_factory=list)
    starts_s: list[float] = field(default_factory=list)
    """From the 202 until a poll no longer said that the job waits."""
    busy: list[float] = field(default_factory=list)
    """The share of eight slots' time in which they ran jobs of 0.3 s."""
    idle: float = 0.0
    """Processor time of one core, a share."""
    service_bytes: int = 0
    store_bytes: int = 0
    is_one: bool | None = None
    """The same request with the same Idempotency-Key, twice, made one job."""
    kill: Kill | None = None


@dataclass(slots=True)
class DoorResult:
    """What was measured of one side of a comparison of synchronous doors, over all rounds."""

    name: str
    costs: list[Cost] = field(default_factory=list)
    """Of chats, one for the flood of each round; of a model, one for each round of all sounds."""
    alone_s: list[float] = field(default_factory=list)
    """Answers to one client's chats."""
    answers_s: dict[str, list[float]] = field(default_factory=dict)
    """Answers of a model, by what was asked."""
    sound_s: float = 0.0
    """Spoken or transcribed in a round."""
    errors: float | None = None
    """The share of words that were not recognised."""
    service_bytes: int = 0

    def of_sound(self, seconds: Callable[[Cost], float]) -> float:
        """The median over the rounds, for a second of sound."""
        return median_of(self.costs, seconds) / self.sound_s if self.sound_s else 0.0


@dataclass(frozen=True, slots=True)
class Panel:
    """One of the chart: bars to the scale of the longest."""

    title: str
    unit: str
    is_more_better: bool
    bars: list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the table; some are panels of the chart, too."""

    title: str
    cell: Callable[[Result], str]
    value: Callable[[Result], float]
    unit: str
    is_more_better: bool = False


def median_of(costs: Sequence[Cost], of: Callable[[Cost], float]) -> float:
    """The median over the rounds; 0 where there was none."""
    return statistics.median(of(cost) for cost in costs) if costs else 0.0


def _ms(values: Sequence[float], part: float) -> float:
    return quantile(values, part) * 1000 if values else 0.0


def _pair(values: Sequence[float]) -> str:
    return f"{_ms(values, 0.5):.1f} / {_ms(values, 0.99):.1f}"


MEASURES: tuple[Measure, ...] = (
    Measure(
        "accept, 32 clients, jobs/s",
        lambda one: f"{median_of(one.accepts, lambda cost: cost.rate):.0f}",
        lambda one: median_of(one.accepts, lambda cost: cost.rate),
        "/s",
        is_more_better=True,
    ),
    Measure(
        "processor time of an accepted job, µs (store's part)",
        lambda one: (
            f"{median_of(one.accepts, lambda cost: cost.each_us):.0f}"
            f" ({median_of(one.accepts, lambda cost: cost.store_s / cost.requests * 1e6):.0f})"
        ),
        lambda one: median_of(one.accepts, lambda cost: cost.each_us),
        "µs",
    ),
    Measure(
        "accept, 1 client, p50 / p99, ms",
        lambda one: _pair(one.alone_s),
        lambda one: _ms(one.alone_s, 0.5),
        "ms",
    ),
    Measure(
        "accept, 32 clients, p50 / p99, ms",
        lambda one: _pair(one.together_s),
        lambda one: _ms(one.together_s, 0.5),
        "ms",
    ),
    Measure(
        "poll, 8 clients, requests/s",
        lambda one: f"{median_of(one.polls, lambda cost: cost.rate):.0f}",
        lambda one: median_of(one.polls, lambda cost: cost.rate),
        "/s",
        is_more_better=True,
    ),
    Measure(
        "processor time of a poll, µs",
        lambda one: f"{median_of(one.polls, lambda cost: cost.each_us):.0f}",
        lambda one: median_of(one.polls, lambda cost: cost.each_us),
        "µs",
    ),
    Measure(
        "202 → running, p50 / p99, ms",
        lambda one: _pair(one.starts_s),
        lambda one: _ms(one.starts_s, 0.5),
        "ms",
    ),
    Measure(
        "8 slots with jobs of 0.3 s, busy",
        lambda one: f"{statistics.median(one.busy or [0.0]) * 100:.0f} %",
        lambda one: statistics.median(one.busy or [0.0]) * 100,
        "%",
        is_more_better=True,
    ),
    Measure(
        "idle, of one core, store included",
        lambda one: f"{one.idle * 100:.2f} %",
        lambda one: one.idle * 100,
        "%",
    ),
    Measure(
        "memory, MiB (store's part)",
        lambda one: f"{(one.service_bytes + one.store_bytes) / MIB:.0f} ({one.store_bytes / MIB:.0f})",
        lambda one: (one.service_bytes + one.store_bytes) / MIB,
        "MiB",
    ),
)


def as_table(results: Sequence[Result]) -> str:
    """One column for each contestant."""
    lines = [
        ["", *(result.name for result in results)],
        ["---"] * (len(results) + 1),
        ["store", *(result.store for result in results)],
        ["processes of the service", *(str(result.processes) for result in results)],
        *([measure.title, *(measure.cell(result) for result in results)] for measure in MEASURES),
        ["the same request twice makes", *(_twice(result) for result in results)],
    ]
    return _markdown(lines)


def as_kills(results: Sequence[Result]) -> str:
    """The table of the kills; empty where none was made."""
    shown = [(result.name, result.kill) for result in results if result.kill is not None]
    if not shown:
        return ""
    head = ["", "accepted", "done before", "lost", "begun twice", "run to the end twice", "all done after"]
    lines = [head, ["---"] * len(head)]
    for name, kill in shown:
        numbers = (kill.accepted, kill.ended_before, kill.lost, kill.began_twice, kill.ended_twice)
        after = f"not within {kill.settled_s:.0f} s" if kill.lost else f"{kill.settled_s:.1f} s"
        lines.append([name, *(str(number) for number in numbers), after])
    return _markdown(lines)


def as_chats(results: Sequence[DoorResult]) -> str:
    """A row for each; empty where nothing was measured."""
    head = [
        "",
        "chats/s, 32 clients",
        "processor time of a chat, µs",
        "1 client, p50 / p99, ms",
        "memory, MiB",
    ]
    lines = [
        [
            one.name,
            f"{median_of(one.costs, lambda cost: cost.rate):.0f}",
            f"{median_of(one.costs, lambda cost: cost.each_us):.0f}",
            _pair(one.alone_s),
            f"{one.service_bytes / MIB:.0f}",
        ]
        for one in results
    ]
    return _markdown([head, ["---"] * len(head), *lines]) if lines else ""


def as_models(results: Sequence[DoorResult]) -> str:
    """The table of a model's servers; empty where nothing was measured."""
    if not results:
        return ""
    asked = [*results[0].answers_s]
    head = ["", "processor time for a second of sound, s", "time for a second of sound, s"]
    head += [f"{what}, median, s" for what in asked]
    head += ["words wrong"] * (results[0].errors is not None) + ["memory, MiB"]
    lines = [head, ["---"] * len(head)]
    for one in results:
        line = [one.name, f"{one.of_sound(_processor_s):.3f}", f"{one.of_sound(_real_s):.3f}"]
        line += [f"{statistics.median(one.answers_s[what]):.2f}" for what in asked]
        line += [] if one.errors is None else [f"{one.errors:.1%}"]
        lines.append([*line, f"{one.service_bytes / MIB:.0f}"])
    return _markdown(lines)


def panels_of(
    chats: Sequence[DoorResult], speeches: Sequence[DoorResult], transcripts: Sequence[DoorResult]
) -> list[Panel]:
    """What the chart shows of the doors: processor time, which depends least on the machine's load."""
    panels = []
    if chats:
        bars = [(one.name, median_of(one.costs, lambda cost: cost.each_us)) for one in chats]
        panels.append(Panel("processor time of a chat", "µs", False, bars))
    for what, results in (("speech", speeches), ("transcript", transcripts)):
        if results:
            bars = [(one.name, one.of_sound(_processor_s)) for one in results]
            panels.append(Panel(f"processor time of a second of {what}", "s", False, bars))
    return panels


def _processor_s(cost: Cost) -> float:
    return cost.service_s + cost.store_s


def _real_s(cost: Cost) -> float:
    return cost.seconds


def _twice(result: Result) -> str:
    return {None: "not asked", True: "1 job", False: "2 jobs"}[result.is_one]


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# The chart, in pixels.
_PANELS = (0, 1, 4, 6, 8, 9)
"""Of MEASURES."""
_COLUMNS = 2
_WIDTH, _TITLE, _BAR, _GAP, _NAME, _VALUE = 420, 34, 20, 24, 150, 80
_PRODUCT = "Tenuto"
_INK, _OURS, _THEIRS, _PAPER = "#1f2933", "#0f766e", "#94a3b8", "#ffffff"


def as_chart(results: Sequence[Result], doors: Sequence[Panel] = ()) -> str:
    """An SVG image: a panel for each measure, a bar for each contestant, ours in colour."""
    panels = [_panel_of(MEASURES[number], results) for number in _PANELS] + [*doors]
    rows = [panels[at : at + _COLUMNS] for at in range(0, len(panels), _COLUMNS)]
    heights = [_TITLE + _BAR * max(len(panel.bars) for panel in row) + _GAP for row in rows]
    width, whole = _WIDTH * _COLUMNS, sum(heights) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" width="{width}" '
        f'height="{whole}" font-family="system-ui, sans-serif" font-size="12" role="img">',
        f"<title>{_PRODUCT} beside its peers</title>",
        f'<rect width="{width}" height="{whole}" fill="{_PAPER}"/>',
    ]
    for number, row in enumerate(rows):
        for place, panel in enumerate(row):
            parts += _drawn(panel, place * _WIDTH, sum(heights[:number]) + _GAP // 2)
    return "\n".join([*parts, "</svg>", ""])


def _panel_of(measure: Measure, results: Sequence[Result]) -> Panel:
    title = measure.title.partition(" (")[0].replace(" / p99", "")
    bars = [(result.name, measure.value(result)) for result in results]
    return Panel(title, measure.unit, measure.is_more_better, bars)


def _drawn(panel: Panel, across: int, down: int) -> list[str]:
    longest = max([value for _, value in panel.bars] + [1e-9])
    better = "more is better" if panel.is_more_better else "less is better"
    parts = [
        f'<text x="{across + 12}" y="{down + 18}" fill="{_INK}" font-weight="600">'
        f'{escape(panel.title)} <tspan font-weight="400" fill="#64748b">{better}</tspan></text>'
    ]
    for line, (name, value) in enumerate(panel.bars):
        top = down + _TITLE + line * _BAR
        length = max(1.0, value / longest * (_WIDTH - _NAME - _VALUE))
        parts += [
            f'<text x="{across + _NAME - 6}" y="{top + 12}" text-anchor="end" fill="{_INK}">'
            f"{escape(name)}</text>",
            f'<rect x="{across + _NAME}" y="{top + 1}" width="{length:.1f}" height="{_BAR - 6}" rx="2" '
            f'fill="{_OURS if name.startswith(_PRODUCT) else _THEIRS}"/>',
            f'<text x="{across + _NAME + length + 6:.1f}" y="{top + 12}" fill="{_INK}">'
            f"{_short(value)} {panel.unit}</text>",
        ]
    return parts


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write(page: Path, chart: Path, image: str, text: str, places: dict[str, str]) -> None:
    """The page of the documentation and its picture. `text` has a place {name} for each of `places`."""
    chart.write_text(image, "utf-8")
    for name, value in places.items():
        text = text.replace("{" + name + "}", value)
    page.write_text(text, "utf-8")
