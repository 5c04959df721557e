"""lab/records/reliability.md: the promises and their tests, and what the record of the soak holds."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from lab.faults import plan, promises
from lab.faults.campaign import LIFE
from lab.faults.life import CLIENTS, Result
from lab.faults.plan import Shape
from lab.faults.record import Entry, Record, total

DOCUMENT = Path(__file__).parents[2] / "lab" / "records" / "reliability.md"
FULL_SOAK = 20_000
Totals = Mapping[Shape, Result]
NAMES: Mapping[Shape, str] = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "s3": "PostgreSQL and S3"}
KILLS = {"workers": plan.WORKER_KILLS, "databases": plan.DATABASE_KILLS, "stores": plan.STORE_KILLS}

PAGE = Path(__file__).with_name("page.md")
"""Its prose."""


def write(record: Record) -> None:
    """The whole page, of this record."""
    DOCUMENT.write_text(page(record), encoding="utf-8")


def page(record: Record) -> str:
    """Its text; for a record that has an entry."""
    clean = [entry for entry in record.entries if entry.is_clean]
    totals: Totals = {
        shape: total(entry for entry in clean if entry.shape == shape)
        for shape in plan.SHAPES
        if any(entry.shape == shape for entry in clean)
    }
    parts = {
        "promises": _promises(),
        "run": _run(record),
        "lives": _lives(clean),
        "findings": _findings(record),
        "kinds": _kinds(totals),
        "places": _places(totals),
        "ends": _ends(totals),
    }
    return PAGE.read_text("utf-8").format(
        **{name: "".join(part) for name, part in parts.items()},
        # The text does not lie beside the page, so the link is not in it.
        endurance="[another page](endurance.md)",
        clients=len(CLIENTS),
        life=LIFE,
        soak=FULL_SOAK,
    )


def _promises() -> Iterable[str]:
    for promise, files in promises.tests().items():
        named = ", ".join(f"`{path.removeprefix('tests/')}` ({number})" for path, number in files.items())
        yield f"| {promise} | {promises.PROMISES[promise]} | {named} |\n"


def _run(record: Record) -> Iterable[str]:
    faults, dirty = record.faults(), [entry for entry in record.entries if not entry.is_clean]
    clean = sum(entry.lives for entry in record.entries if entry.is_clean)
    lives = clean + len(dirty)
    bad = [entry for entry in dirty if entry.lost_something]
    yield f"{faults:,} faults hit in {clean} lives without a finding, {faults / FULL_SOAK:.1%} of the full "
    yield f"soak of {FULL_SOAK:,}. **Lives with lost jobs, double charges or wrong bytes: {len(bad)} of "
    yield f"{lives}. Lives with another defect: {len(dirty) - len(bad)} of {lives}**"
    yield f"; in both, {sum(entry.result.faults for entry in dirty)} further faults.\n" if dirty else ".\n"


def _lives(clean: list[Entry]) -> Iterable[str]:
    """A row for each shape, seed, commit and day: what somebody needs to run the same lives."""
    killed = (f"{what} killed" for what in KILLS)
    rows: list[tuple[str, ...]] = [("", "seed", "lives", "commit", "date", "faults", *killed, "s a fault")]

    def key(entry: Entry) -> tuple[str, int, str, str]:
        return entry.date, plan.SHAPES.index(entry.shape), entry.named_seeds, entry.commit

    for (date, shape, seeds, commit), group in groupby(sorted(clean, key=key), key=key):
        entries = list(group)
        one = total(entries)
        kills = {what: sum(one.hit[kind] for kind in kinds) for what, kinds in KILLS.items()}
        kills["workers"] += one.by_kill
        figures = (one.faults, *kills.values())
        name, pace = NAMES[plan.SHAPES[shape]], f"{one.took_s / max(1, one.faults):.2f}"
        rows.append((name, seeds, _numbers(entries), f"`{commit}`", date, *map(str, figures), pace))
    yield from _table(rows, left=5)


def _numbers(entries: list[Entry]) -> str:
    """The numbers of lives, in ranges; of an entry that sums several, how many."""
    if entries[0].seeds:
        return f"{sum(entry.lives for entry in entries)}, unnumbered"
    numbers = sorted({entry.life for entry in entries})
    ranges = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        pairs = list(run)
        first, last = pairs[0][1], pairs[-1][1]
        ranges.append(str(first) if first == last else f"{first}–{last}")
    return ", ".join(ranges)


def _findings(record: Record) -> Iterable[str]:
    """A row for each life that did not end clean, with what became of it."""
    dirty = [entry for entry in record.entries if not entry.is_clean]
    if not dirty:
        return
    rows = [("", "seed", "life", "commit", "finding", "what became of it")]
    for entry in dirty:
        said = "; ".join(entry.result.findings)[:700].replace("|", "\\|").replace("\n", " ")
        names = (NAMES[entry.shape], str(entry.seed), str(entry.life), f"`{entry.commit}`")
        rows.append((*names, f"`{said.replace('`', chr(39))}`", entry.resolution or "open"))
    yield from _table(rows, left=6)


def _kinds(totals: Totals) -> Iterable[str]:
    kinds = sorted({kind for one in totals.values() for kind in one.hit})
    rows = [("fault", *(NAMES[shape] for shape in totals))]
    rows += [(kind, *(str(one.hit[kind]) for one in totals.values())) for kind in kinds]
    missed = [str(one.missed.total()) for one in totals.values()]
    yield from _table([*rows, ("drawn, but nobody was there to be hit", *missed)])


def _places(totals: Totals) -> Iterable[str]:
    rows = [("place", *(NAMES[shape] for shape in totals))]
    places = sorted({place for one in totals.values() for place in one.places})
    yield from _table(
        [*rows, *((f"`{place}`", *(str(one.places[place]) for one in totals.values())) for place in places)]
    )


def _ends(totals: Totals) -> Iterable[str]:
    counted: dict[str, Counter[str]] = {name: one.ends + _answers(one) for name, one in totals.items()}
    rows = [("", *(NAMES[shape] for shape in totals))]
    names = sorted({name for one in counted.values() for name in one})
    yield from _table([*rows, *((name, *(f"{one[name]:,}" for one in counted.values())) for name in names)])


def _answers(one: Result) -> Counter[str]:
    return Counter({f"answers {name}": number for name, number in one.answers.items() if number})


def _table(rows: Sequence[tuple[str, ...]], *, left: int = 1) -> Iterable[str]:
    """Markdown; the first `left` columns are text, the others figures."""
    head, *body = rows
    yield f"| {' | '.join(head)} |\n{'|---' * left}{'|---:' * (len(head) - left)}|\n"
    yield from (f"| {' | '.join(row)} |\n" for row in body)
