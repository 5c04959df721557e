"""docs/reliability.md, written by a campaign: the promises and their tests, and the results of the faults."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from faults import plan, promises
from faults.campaign import LIFE, Campaign, total
from faults.life import CLIENTS, Result
from faults.plan import Shape

DOCUMENT = Path(__file__).parents[2] / "docs" / "reliability.md"
FULL_SOAK = 20_000
Totals = Mapping[Shape, Result]
NAMES: Mapping[Shape, str] = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "s3": "PostgreSQL and S3"}

PAGE = Path(__file__).with_name("page.md")
"""Its prose."""


def write(campaigns: list[Campaign]) -> None:
    """The whole page, of these campaigns: one or more of each shape."""
    totals: Totals = {
        shape: total([life for each in campaigns if each.shape == shape for life in each.lives])
        for shape in plan.SHAPES
        if any(each.shape == shape for each in campaigns)
    }
    parts = {
        "promises": _promises(),
        "run": _run(campaigns, totals),
        "kinds": _kinds(totals),
        "places": _places(totals),
        "ends": _ends(totals),
    }
    last = campaigns[-1]
    DOCUMENT.write_text(
        PAGE.read_text("utf-8").format(
            **{name: "".join(part) for name, part in parts.items()},
            clients=len(CLIENTS),
            life=LIFE,
            soak=FULL_SOAK,
            seed=last.seed,
            count=last.faults,
            shape=" ".join(last.words),
        ),
        encoding="utf-8",
    )


def _promises() -> Iterable[str]:
    for promise, files in promises.tests().items():
        named = ", ".join(f"`{path.removeprefix('tests/')}` ({number})" for path, number in files.items())
        yield f"| {promise} | {promises.PROMISES[promise]} | {named} |\n"


def _run(campaigns: list[Campaign], totals: Totals) -> Iterable[str]:
    faults = sum(each.faults for each in campaigns)
    found = sum(len(each.findings) for each in totals.values())
    day = datetime.now(UTC).date().isoformat()
    yield f"{day}, {os.cpu_count()} cores shared with other work. {faults:,} faults hit, "
    yield f"{faults / FULL_SOAK:.1%} of the full soak of {FULL_SOAK:,}.\n"
    yield f"**Found by the checker: {found}.**\n\n"
    killed = {"workers": plan.WORKER_KILLS, "databases": plan.DATABASE_KILLS, "stores": plan.STORE_KILLS}
    rows: list[tuple[str, ...]] = [
        ("", "seed", "faults", *(f"{what} killed" for what in killed), "lives", "minutes", "s a fault")
    ]
    for each in campaigns:
        one = total(each.lives)
        kills = {what: sum(one.hit[kind] for kind in kinds) for what, kinds in killed.items()}
        kills["workers"] += one.by_kill
        figures = (*kills.values(), len(each.lives), f"{one.took_s / 60:.1f}")
        pace = f"{one.took_s / max(1, one.faults):.2f}"
        rows.append((NAMES[each.shape], *map(str, (each.seed, each.faults, *figures, pace))))
    yield from _table(rows)


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


def _table(rows: Sequence[tuple[str, ...]]) -> Iterable[str]:
    head, *body = rows
    yield f"| {' | '.join(head)} |\n|---{'|---:' * (len(head) - 1)}|\n"
    yield from (f"| {' | '.join(row)} |\n" for row in body)
