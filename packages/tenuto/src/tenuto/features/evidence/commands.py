"""`tenuto admin evidence`: everything recorded about a job. Knows no rows."""

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from tenuto.command.common import json_line, own_blobs, records, say
from tenuto.command.options import add_location, location_of
from tenuto.process.runtime import clock
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t

if TYPE_CHECKING:
    from tenuto.features.evidence.evidence import (
        AttemptEvidence,
        EventEvidence,
        Evidence,
        Exits,
        MoneyEvidence,
    )


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument("job", metavar="JOB", help=t("the id of the job"))
    parser.add_json()
    add_location(parser)
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace, console: Console) -> int:
    """Show it, after reading the recorded bytes again, with what each way out of recovery would do."""
    from tenuto.features.evidence.examination import examine

    place, now_ms = location_of(options), clock()
    with records(place) as database:
        blobs = own_blobs(place.settings(), database)
        evidence = examine(database, blobs, options.job, now_ms=now_ms)
    if options.as_json:
        say(json_line(to_builtins(evidence)))
        return 0
    for line in _lines(evidence):
        say(line)
    return 0


def _lines(evidence: "Evidence") -> Iterator[str]:
    """Everything, under headings; empty sections are left out."""
    yield from _section("job", _facts(asdict(evidence.job)))
    yield from _section("money", _money(evidence.money))
    for attempt in evidence.attempts:
        yield from _section(f"attempt {attempt.number}", _attempt(attempt))
    yield from _section("segments", (_row(row) for row in evidence.segments))
    yield from _section("parts", (_row(row) for row in evidence.parts))
    yield from _section("events", (_event(row) for row in evidence.events))
    yield from _section("exits", _exits(evidence.job.id, evidence.exits))


def _section(heading: str, body: Iterable[str]) -> Iterator[str]:
    shown = list(body)
    if shown:
        yield heading
        yield from (f"  {line}" for line in shown)


def _facts(facts: dict[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        if value not in (None, "", [], {}):
            yield f"{name:<20} {_text(value)}"


def _money(money: "MoneyEvidence") -> Iterator[str]:
    price = f"{money.price} {money.currency} per {money.unit}"
    yield f"{'price':<20} {price}, {money.hold} held for it"
    yield f"{'charged':<20} {money.charged}"
    yield f"{'account':<20} {money.account.available} available, {money.account.held} held for all its jobs"
    for entry in money.entries:
        amounts = {
            "available": entry.available,
            "held": entry.held,
            "revenue": entry.revenue,
            "funding": entry.funding,
        }
        moved = ", ".join(f"{name} {amount}" for name, amount in amounts.items() if amount.strip("-0."))
        note = f"  ({entry.note})" if entry.note else ""
        yield f"{entry.created_at}  {entry.type:<7} {moved or 'moves nothing'}{note}"


def _attempt(attempt: "AttemptEvidence") -> Iterator[str]:
    worker, result = attempt.worker, attempt.result
    simple = asdict(attempt)
    for name in ("worker", "result", "number"):
        del simple[name]
    yield from _facts(simple | {"worker": f"{worker.id} on {worker.machine}, pid {worker.pid}"})
    if result is None:
        yield f"{'result':<20} none was recorded"
        return
    yield f"{'result':<20} {result.size_bytes} bytes of {result.media_type}, {result.bytes}"
    facts = asdict(result)
    yield from _facts({name: facts[name] for name in ("blob_id", "sha256", "duration_ms", "metadata")})


def _event(event: "EventEvidence") -> str:
    words = [event.type, event.attempt_id, event.detail]
    if event.operator:
        words.append(f"by {event.operator}" + (f": {event.note}" if event.note else ""))
    return f"{event.at}  {event.sequence:>3}  " + "  ".join(word for word in words if word)


def _exits(job_id: str, exits: "Exits") -> Iterator[str]:
    complete, requeue, void = exits.complete, exits.requeue, exits.void
    file = " --file FILE" if complete.needs_file else ""
    charge = "the file's duration decides what is charged"
    if complete.charges is not None:
        charge = f"{complete.charges} are charged, {complete.releases} released"
    twice = "; the engine's provider may be paid a second time" if requeue.may_be_paid_twice else ""
    for name, does, refused in (
        (f"complete {job_id}{file}", charge, complete.refused),
        (f"requeue {job_id}", f"{requeue.keeps_held} stay held{twice}", requeue.refused),
        (f"void {job_id}", f"nothing is charged, {void.releases} released", void.refused),
    ):
        yield f"tenuto admin recover {name}"
        yield f"  {does}" if refused is None else f"  would be refused: {refused}"


def _row(row: Struct) -> str:
    return "  ".join(f"{name}={_text(value)}" for name, value in asdict(row).items())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value)
    return str(value)
