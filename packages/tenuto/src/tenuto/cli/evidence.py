"""The evidence of a job as text for a terminal. It knows the dict that `jobs.evidence` gives, and no rows."""

from collections.abc import Iterable, Iterator
from typing import Any


def lines(found: dict[str, Any]) -> Iterator[str]:
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
        yield f"tenuto recover {name}"
        yield f"  {does}" if exit_["refused"] is None else f"  would be refused: {exit_['refused']}"


def _row(row: dict[str, Any]) -> str:
    return "  ".join(f"{name}={_text(value)}" for name, value in row.items())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value)
    return str(value)
