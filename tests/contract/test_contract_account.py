"""What an account sees of its balance and usage."""

import datetime
import time
from decimal import Decimal
from typing import Any

from servers.callers import METERED, ON_ONE_DATABASE, Caller, Operator, faults

IMAGE = "fake/image"
SMALL = {"prompt": "x", "width": 256, "height": 256}


def balance(caller: Caller) -> tuple[str, str, str]:
    answer = caller.get("/v1/account/balance")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert ("balance", "CNY") == (found["object"], found["currency"])
    return found["available"], found["held"], found["total"]


def ledger(caller: Caller, query: str = "") -> list[dict[str, Any]]:
    answer = caller.get(f"/v1/account/ledger{query}")
    assert answer.status_code == 200, answer.text
    entries: list[dict[str, Any]] = answer.json()["data"]
    return entries


def usage(caller: Caller, query: str = "") -> list[dict[str, Any]]:
    answer = caller.get(f"/v1/usage{query}")
    assert answer.status_code == 200, answer.text
    lines: list[dict[str, Any]] = answer.json()["data"]
    return lines


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


# --- balance and ledger ---------------------------------------------------------------------------


def test_the_ledger_tells_every_movement(paid: Operator) -> None:
    """Credit, hold, settlement and release, newest first, each with its job; together they are the balance
    (R134, R217)."""
    caller = paid.caller(credit="1")
    done = caller.submit("x", model=METERED)
    caller.wait(done)
    failed = caller.submit("[fake:raise] x")
    caller.wait(failed)
    paid.service.command("admin", "accounts", "credit", caller.account_id, "-0.2")
    told = ledger(caller)

    assert [
        ("adjust", "-0.200000", None),
        ("void", "0.050000", failed),
        ("hold", "0.050000", failed),
        ("settle", "0.080000", done),
        ("hold", "0.100000", done),
        ("credit", "1.000000", None),
    ] == [(entry["type"], entry["amount"], entry["job_id"]) for entry in told]
    sums = [sum(Decimal(entry[name]) for entry in told) for name in ("available_change", "held_change")]
    assert balance(caller)[:2] == tuple(f"{amount:.6f}" for amount in sums)
    assert all(abs(entry["created_at"] - time.time()) < 60 for entry in told)


def test_synthesis_is_in_the_ledger_at_nothing(caller: Caller) -> None:
    """The trial plan's 0 is recorded, and nothing else that was done is (R157, R215, R216)."""
    job_id = caller.submit()
    caller.wait(job_id)
    for path in ("/v1/models", "/v1/voices", "/v1/jobs", f"/v1/jobs/{job_id}/events"):
        caller.get(path)

    assert [("settle", "0.000000"), ("hold", "0.000000")] == [
        (entry["type"], entry["amount"]) for entry in ledger(caller)
    ]


def test_the_ledger_has_pages(caller: Caller) -> None:
    """`next_cursor` leads through all lines, once each; the last page has none."""
    for number in range(4):
        caller.wait(caller.submit(f"Number {number}."))
    whole = ledger(caller)
    pages, query = [], "?limit=3"
    while True:
        page = caller.get(f"/v1/account/ledger{query}").json()
        pages.append(page["data"])
        if "next_cursor" not in page:
            break
        query = f"?limit=3&after={page['next_cursor']}"

    assert [3, 3, 2] == [len(page) for page in pages]
    assert whole == [entry for page in pages for entry in page]


@ON_ONE_DATABASE
def test_faulty_queries_are_refused(caller: Caller) -> None:
    """All faults at once; a day is written 2026-11-21, a span is at most 92 days and not backwards (R207)."""
    wrong = [
        ("account/ledger?limit=101&after=x", [("after", "not_allowed"), ("limit", "out_of_range")]),
        ("account/ledger?after=job_00000000000000000000000000", [("after", "not_allowed")]),
        ("account/ledger?type=hold", [("type", "unknown_name")]),
        ("usage?since=2026-13-01", [("since", "not_allowed")]),
        ("usage?since=20261101", [("since", "not_allowed")]),
        ("usage?since=1969-12-31", [("since", "not_allowed")]),
        ("usage?since=2026-01-01&until=2026-06-01", [("since", "out_of_range")]),
        ("usage?since=2026-02-02&until=2026-02-01", [("since", "out_of_range")]),
    ]

    for path, expected in wrong:
        assert expected == faults(caller.get(f"/v1/{path}")), path


# --- usage ----------------------------------------------------------------------------------------


def test_usage_counts_what_was_made(operator: Operator) -> None:
    """By day, model and key: jobs, characters, seconds of sound, images, what was charged (R146, R215)."""
    caller = operator.caller(credit="1")
    sibling = operator.key(caller.account_id)
    for who, text in ((caller, "x" * 10), (caller, "字" * 5), (sibling, "y")):
        who.wait(who.submit(text))
    caller.wait(caller.submit("[fake:raise] not counted"))
    caller.wait(caller.post_job({"model": IMAGE, "parameters": SMALL}).json()["id"])
    lines = {(line["model"], line["key_id"]): line for line in usage(caller)}

    assert {("fake/speech", caller.key_id), ("fake/speech", sibling.key_id), (IMAGE, caller.key_id)} == set(
        lines
    )
    speech, image = lines["fake/speech", caller.key_id], lines[IMAGE, caller.key_id]
    assert (2, 15, 0.9, 0, "0.000000") == tuple(
        speech[name] for name in ("jobs", "characters", "audio_seconds", "images", "charged")
    )
    assert (1, 0, 0, 1, "0.050000") == tuple(
        image[name] for name in ("jobs", "characters", "audio_seconds", "images", "charged")
    )
    assert 1 == lines["fake/speech", sibling.key_id]["characters"]
    assert {("usage", "CNY", today())} == {
        (line["object"], line["currency"], line["day"]) for line in lines.values()
    }
    assert [] == usage(operator.caller()) == usage(caller, "?since=1970-01-01&until=1970-03-01")
