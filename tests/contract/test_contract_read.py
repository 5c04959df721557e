"""Reading jobs: the operation in every state, lists and pages, and ids that are not the caller's."""

import re
from typing import Any

from servers.callers import METERED, ON_ONE_DATABASE, Caller, Operator, faults
from servers.service import FINAL


def test_a_finished_operation_has_its_result(caller: Caller) -> None:
    """A succeeded job has its file first in `artifacts`, times in order and no error, for ever
    (R26–R28, R33, R34, R51)."""
    operation = caller.wait(caller.submit("Twenty characters ok"))
    (artifact,) = operation["artifacts"]

    assert ("succeeded", None, None, None) == tuple(
        operation[name] for name in ("state", "error", "progress", "queue_position")
    )
    assert operation["created_at"] <= operation["started_at"] <= operation["finished_at"]
    assert 1 == operation["attempt"]
    assert {"id", "media_type", "size_bytes", "sha256", "metadata"} == set(artifact)
    assert "audio/wav" == artifact["media_type"]
    assert re.fullmatch("[0-9a-f]{64}", artifact["sha256"])
    assert artifact["metadata"] == operation["result"]
    assert [operation] == caller.get("/v1/jobs").json()["data"]
    again = caller.get(f"/v1/jobs/{operation['id']}", {"Idempotency-Key": "means nothing to a read"})
    assert (operation, None) == (again.json(), again.headers.get("retry-after"))


def test_a_running_job_says_when_to_look_again(caller: Caller) -> None:
    """While it runs there is Retry-After 1, a start, an attempt, and no artifact (R28, R31, R39)."""
    job_id = caller.block_lane()
    answer = caller.get(f"/v1/jobs/{job_id}")
    operation = answer.json()
    caller.cancel(job_id)

    assert ("running", "1") == (operation["state"], answer.headers["retry-after"])
    assert (1, None, [], None) == tuple(
        operation[name] for name in ("attempt", "finished_at", "artifacts", "result")
    )
    assert operation["started_at"] >= operation["created_at"]


def test_waiting_jobs_say_how_long_to_wait(caller: Caller) -> None:
    """Behind a running job there is a place in the queue; Retry-After grows with it to 10 (R28, R214)."""
    running = caller.block_lane()
    queued = [caller.submit(f"Number {n}.") for n in range(12)]
    answers = [caller.get(f"/v1/jobs/{job_id}") for job_id in queued]
    states = [answer.json()["state"] for answer in answers]
    for job_id in [*queued, running]:
        caller.cancel(job_id)

    assert ["queued"] * 12 == states
    assert [*range(12)] == [answer.json()["queue_position"] for answer in answers]
    assert [1, 1, 1, 1, 4, 5, 6, 7, 8, 9, 10, 10] == [
        int(answer.headers["retry-after"]) for answer in answers
    ]
    assert {None} == {answer.json()["started_at"] for answer in answers}


def test_progress_is_seen_by_polling(caller: Caller) -> None:
    """A job in several segments tells stage, count, total and unit while it runs (R7)."""
    job_id = caller.submit("[fake:slow_segments=0.4] " + "x" * 180)
    caller.wait(job_id, ("running", *FINAL))
    seen = []
    while (operation := caller.read(job_id))["state"] == "running":
        if operation["progress"] is not None:
            seen.append(operation["progress"])
            break
    caller.cancel(job_id)

    assert [("speaking", 9, "segments")] == [
        (progress["stage"], progress["total"], progress["unit"]) for progress in seen
    ]
    assert 1 <= seen[0]["completed"] <= 9


@ON_ONE_DATABASE
def test_ids_work_percent_encoded(caller: Caller) -> None:
    """An id in the path may be URL-encoded, wholly too, an artifact's as well (R18)."""
    operation = caller.wait(caller.submit())
    whole = "".join(f"%{ord(mark):02X}" for mark in operation["id"])

    assert operation == caller.get(f"/v1/jobs/{whole}").json()
    assert operation == caller.get("/v1/jobs/" + operation["id"].replace("_", "%5f")).json()
    assert operation == caller.request("POST", f"/v1/jobs/{whole}/cancel").json()
    artifact_id = "".join(f"%{ord(mark):02x}" for mark in operation["artifacts"][0]["id"])
    assert 200 == caller.get(f"/v1/artifacts/{artifact_id}/content").status_code


def test_every_state_that_is_shown_is_one_of_seven(operator: Operator, caller: Caller) -> None:
    """States are those of the contract, and each filter finds its own jobs (R30, R31, R34)."""
    ends = {
        "succeeded": caller.submit(),
        "failed": caller.submit("[fake:raise] x"),
        "recovery_required": caller.submit("[fake:unknown] x", model=METERED),
    }
    for state, job_id in ends.items():
        assert state == caller.wait(job_id)["state"]
    ends["running"] = caller.block_lane()
    ends["queued"], ends["cancelled"] = caller.submit(), caller.submit()
    caller.cancel(ends["cancelled"])
    found = {
        state: [operation["id"] for operation in caller.get(f"/v1/jobs?state={state}").json()["data"]]
        for state in (*ends, "submitting")
    }
    for name in ("queued", "running"):
        caller.cancel(ends[name])

    assert {state: [job_id] for state, job_id in ends.items()} | {"submitting": []} == found


def test_the_list_goes_from_page_to_page(operator: Operator, caller: Caller) -> None:
    """Newest first, page by page with `after`, to a last page without next_cursor; no stranger's job."""
    operator.caller().submit()
    made = [caller.submit(f"[fake:raise] {n}") for n in range(7)]
    pages: list[Any] = [caller.get("/v1/jobs?limit=3").json()]
    while "next_cursor" in pages[-1]:
        pages.append(caller.get(f"/v1/jobs?limit=3&after={pages[-1]['next_cursor']}").json())

    assert [3, 3, 1] == [len(page["data"]) for page in pages]
    assert made[::-1] == [operation["id"] for page in pages for operation in page["data"]]
    assert {"list"} == {page["object"] for page in pages}
    assert [made[6]] == [operation["id"] for operation in caller.get("/v1/jobs?limit=1").json()["data"]]
    assert "next_cursor" not in caller.get("/v1/jobs?limit=7").json()
    assert [] == caller.get(f"/v1/jobs?after={made[0]}").json()["data"]
    assert made[2::-1] == [
        operation["id"] for operation in caller.get(f"/v1/jobs?limit=100&after={made[3]}").json()["data"]
    ]


@ON_ONE_DATABASE
def test_a_wrong_query_is_refused(caller: Caller) -> None:
    """A filter that is unknown or has a value that can't be is a 400 that names all of them (R207)."""
    wrong = [
        ("limit=101", [("limit", "out_of_range")]),
        ("limit=%D9%A1", [("limit", "out_of_range")]),
        ("after=artifact_00000000000000000000000000", [("after", "not_allowed")]),
        ("state=", [("state", "not_allowed")]),
        ("model=%00", [("model", "not_allowed")]),
        ("q=%20", [("q", "not_allowed")]),
        ("created_from=-1", [("created_from", "out_of_range")]),
        ("created_before=soon", [("created_before", "out_of_range")]),
        ("metadata=1", [("metadata", "unknown_name")]),
        (
            "limit=x&after=y&state=z&kind=w&sort=up",
            [
                ("after", "not_allowed"),
                ("kind", "not_allowed"),
                ("limit", "out_of_range"),
                ("sort", "unknown_name"),
                ("state", "not_allowed"),
            ],
        ),
    ]

    for query, expected in wrong:
        assert expected == faults(caller.get(f"/v1/jobs?{query}")), query
