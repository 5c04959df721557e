"""`tenuto admin evidence`: all that is recorded of a job. It knows what `jobs.evidence` gives, no rows."""

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from tenuto import bootstrap
from tenuto.cli.common import json_line, records, say
from tenuto.cli.options import add_place, place_of
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument("job", metavar="JOB", help=t("the id of the job"))
    parser.add_json()
    add_place(parser)
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace, console: Console) -> int:
    """Show it, with the recorded bytes read again, and what each way out of recovery would do."""
    from tenuto.jobs import recover

    place, now_ms = place_of(options), bootstrap.clock()
    with records(place) as database:
        blobs = bootstrap.open_own_blobs(place.settings(), database)
        found = recover.examine(database, blobs, options.job, now_ms=now_ms)
    if options.as_json:
        say(json_line(found))
        return 0
    for line in _lines(found):
        say(line)
    return 0


def _lines(found: dict[str, Any]) -> Iterator[str]:
    """Everything, under headings; what there is none of is left out."""
    yield from _section("job", _facts(found["job"]))
    yield from _section("money", _money(found["money"]))
    for attempt in found["attempts"]:
        yield from _section(f"attempt {attempt['number']}", _attempt(attempt))
    yield from _section("segments", (_row(row) for row in found["segments"]))
    yield from _section("parts", (_row(row) for row in found["parts"]))
    yield from _section("events", (_event(row) for row in found["events"]))
    yield from _section("exits", _exits(found["job"]["id"], found["exits"]))


def _section(heading: str, body: Iterable[str]) -> Iterator[str]:
    shown = list(body)
    if shown:
        yield heading
        yield from (f"  {line}" for line in shown)


def _facts(facts: dict[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        if value not in (None, "", [], {}):
            yield f"{name:<20} {_text(value)}"


def _money(money: dict[str, Any]) -> Iterator[str]:
    price = f"{money['price']} {money['currency']} per {money['unit']}"
    yield f"{'price':<20} {price}, {money['hold']} held for it"
    yield f"{'charged':<20} {money['charged']}"
    account = money["account"]
    yield f"{'account':<20} {account['available']} available, {account['held']} held for all its jobs"
    for entry in money["entries"]:
        moved = ", ".join(
            f"{name} {entry[name]}"
            for name in ("available", "held", "revenue", "funding")
            if entry[name].strip("-0.")
        )
        note = f"  ({entry['note']})" if entry["note"] else ""
        yield f"{entry['created_at']}  {entry['type']:<7} {moved or 'moves nothing'}{note}"


def _attempt(attempt: dict[str, Any]) -> Iterator[str]:
    worker, result = attempt["worker"], attempt["result"]
    simple = {name: value for name, value in attempt.items() if name not in ("worker", "result", "number")}
    yield from _facts(simple | {"worker": f"{worker['id']} on {worker['machine']}, pid {worker['pid']}"})
    if result is None:
        yield f"{'result':<20} none was recorded"
        return
    yield f"{'result':<20} {result['size_bytes']} bytes of {result['media_type']}, {result['bytes']}"
    yield from _facts({name: result[name] for name in ("blob_id", "sha256", "duration_ms", "metadata")})


def _event(event: dict[str, Any]) -> str:
    said = [event["type"], event["attempt_id"], event["detail"]]
    if event["operator"]:
        said.append(f"by {event['operator']}" + (f": {event['note']}" if event["note"] else ""))
    return f"{event['at']}  {event['sequence']:>3}  " + "  ".join(text for text in said if text)


def _exits(job_id: str, exits: dict[str, Any]) -> Iterator[str]:
    complete, requeue, void = exits["complete"], exits["requeue"], exits["void"]
    file = " --file FILE" if complete["needs_file"] else ""
    charge = "the file's duration decides what is charged"
    if complete["charges"] is not None:
        charge = f"{complete['charges']} are charged, {complete['releases']} released"
    twice = "; the engine's provider may be paid a second time" if requeue["may_be_paid_twice"] else ""
    for name, does, exit_ in (
        (f"complete {job_id}{file}", charge, complete),
        (f"requeue {job_id}", f"{requeue['keeps_held']} stay held{twice}", requeue),
        (f"void {job_id}", f"nothing is charged, {void['releases']} released", void),
    ):
        yield f"tenuto admin recover {name}"
        yield f"  {does}" if exit_["refused"] is None else f"  would be refused: {exit_['refused']}"


def _row(row: dict[str, Any]) -> str:
    return "  ".join(f"{name}={_text(value)}" for name, value in row.items())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value)
    return str(value)
