"""Erasing content: bytes and text are removed, also from the disk; records, keys and money stay."""

import json
from typing import Any

import pytest

from contract.test_contract_image import image
from contract.test_contract_segments import content, listed
from servers.callers import METERED, Caller, Operator, error_code, job
from servers.recordings import body, post, recording, upload

SECRET = "The quick brown secret"


def erase(caller: Caller, job_id: str) -> Any:
    answer = caller.request("DELETE", f"/v1/jobs/{job_id}/content")
    assert answer.status_code == 200, answer.text
    return answer.json()


def files(operator: Operator) -> set[str]:
    """All that lies in the folder of blobs."""
    folder = operator.service.folder / "blobs"
    return {path.name for path in folder.rglob("blob_*")}


def blobs_of(operator: Operator, job_id: str) -> set[str]:
    rows = operator.database.read(
        lambda tx: tx.all(
            """select blob_id from artifact where job_id = :id union
               select blob_id from segment where job_id = :id union
               select blob_id from attempt where job_id = :id""",
            id=job_id,
        )
    )
    return {row["blob_id"] for row in rows if row["blob_id"] is not None}


def erased(operation: dict[str, Any]) -> dict[str, Any]:
    """What erasing leaves as it was: all but the title, which quotes the request, and the moment."""
    return {name: value for name, value in operation.items() if name not in ("title", "erased_at")}


def test_erased_content_is_gone_and_says_so(operator: Operator, caller: Caller) -> None:
    """Result, request and segments answer 410; their bytes have left the disk, under any name, the text the
    database; a second time changes nothing (R46, R64)."""
    job_id = caller.submit(SECRET + " that is unlike any other", stream=True)
    before = caller.wait(job_id)
    artifact = before["artifacts"][0]
    segments = listed(caller, job_id)
    blobs = blobs_of(operator, job_id)
    assert len(blobs) == 1 + len(segments)
    assert blobs <= files(operator)
    sound = caller.get(f"/v1/artifacts/{artifact['id']}/content").content
    after = erase(caller, job_id)
    reads = [
        caller.get(f"/v1/artifacts/{artifact['id']}/content"),
        caller.get(f"/v1/artifacts/{artifact['id']}/content", {"Range": "bytes=0-9"}),
        caller.get(f"/v1/artifacts/{artifact['id']}/content", {"If-None-Match": f'"{artifact["sha256"]}"'}),
        caller.get(f"/v1/jobs/{job_id}/request"),
        *(content(caller, job_id, segment) for segment in segments),
    ]

    assert {(410, "erased")} == {error_code(answer) for answer in reads}
    assert set() == blobs & files(operator)
    folder = operator.service.folder / "blobs"
    assert sound not in [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert set() == blobs_of(operator, job_id)
    row = operator.row("select * from job where id = :id", id=job_id)
    assert SECRET not in json.dumps([str(row[name]) for name in row.keys()])  # noqa: SIM118
    assert erased(before) == erased(after) == erased(caller.read(job_id))
    assert (None, True) == (after["title"], after["erased_at"] is not None)
    assert segments == listed(caller, job_id)
    assert after == erase(caller, job_id)
    answer = caller.request("DELETE", f"/v1/artifacts/{artifact['id']}")
    assert {"id": artifact["id"], "object": "artifact", "erased": True} == answer.json()


def test_the_record_the_key_and_the_money_stay(paid: Operator) -> None:
    """The job is shown and listed as before, its replay is answered, its ledger kept (R19, R20)."""
    caller = paid.caller(credit="1")
    job_id = caller.post_job(job(SECRET), key="erase-1").json()["id"]
    before = caller.wait(job_id)
    ledger = caller.get("/v1/account/ledger").json()
    usage = caller.get("/v1/usage").json()
    events = caller.get(f"/v1/jobs/{job_id}/events").json()
    erase(caller, job_id)
    again = caller.post_job(job(SECRET), key="erase-1")

    assert (202, "true") == (again.status_code, again.headers["idempotent-replayed"])
    assert erased(before) == erased(again.json())
    assert (409, "idempotency_conflict") == error_code(caller.post_job(job("other"), key="erase-1"))
    assert [again.json()] == caller.get("/v1/jobs").json()["data"]
    assert ledger == caller.get("/v1/account/ledger").json()
    assert usage == caller.get("/v1/usage").json()
    assert events == caller.get(f"/v1/jobs/{job_id}/events").json()
    assert (950_000, 0) == paid.money(caller)


def test_what_an_engine_quoted_of_the_request_is_erased(paid: Operator) -> None:
    """Warnings, and all else of a result's metadata that may quote a prompt, leave the database with it: also
    if the result was erased before. Numbers and the model's name stay (R49)."""
    caller = paid.caller(credit="1")
    job_id = caller.post_job(image(f"[fake:warn] {SECRET}")).json()["id"]
    before = caller.wait(job_id)["artifacts"][0]["metadata"]
    caller.request("DELETE", f"/v1/artifacts/{caller.read(job_id)['artifacts'][0]['id']}")
    after = erase(caller, job_id)
    rows = paid.database.read(
        lambda tx: tx.all(
            """select a.metadata, t.result_metadata, t.progress from artifact a
               join attempt t on t.job_id = a.job_id where a.job_id = :id""",
            id=job_id,
        )
    )

    assert (1, SECRET) == (len(before.pop("warnings")), before.pop("read"))
    assert before == after["artifacts"][0]["metadata"] == after["result"]
    assert SECRET not in json.dumps([[row[name] for name in row.keys()] for row in rows])  # noqa: SIM118
    assert after == caller.read(job_id)


def test_a_result_alone_can_be_erased(operator: Operator, caller: Caller) -> None:
    """The file goes, the request and the segments stay readable; its bytes leave the disk (R46)."""
    job_id = caller.submit(SECRET, stream=True)
    artifact = caller.wait(job_id)["artifacts"][0]
    file = operator.blob_file(artifact["id"])
    assert file.exists()
    answer = caller.request("DELETE", f"/v1/artifacts/{artifact['id']}")

    assert 200 == answer.status_code
    assert not file.exists()
    assert (410, "erased") == error_code(caller.get(f"/v1/artifacts/{artifact['id']}/content"))
    assert 200 == caller.get(f"/v1/jobs/{job_id}/request").status_code
    assert 200 == content(caller, job_id, listed(caller, job_id)[0]).status_code
    assert artifact == caller.read(job_id)["artifacts"][0]


@pytest.mark.parametrize("text", ["[fake:raise] x", "[fake:exit] x"])
def test_the_text_of_a_failed_job_can_be_erased(operator: Operator, caller: Caller, text: str) -> None:
    """Its request answers 410; what its engine printed, which may quote the text, is gone too (R34)."""
    job_id = caller.submit(text)
    before = caller.wait(job_id)

    assert erased(before) == erased(erase(caller, job_id))
    assert (410, "erased") == error_code(caller.get(f"/v1/jobs/{job_id}/request"))
    count = operator.row(
        "select count(*) as kept from attempt where job_id = :id and evidence is not null", id=job_id
    )
    assert 0 == count["kept"]


def test_open_jobs_are_not_erased(paid: Operator) -> None:
    """Queued, running and waiting for an operator: 400 with the state; nothing changes (R23, R37)."""
    caller = paid.caller(credit="1")
    running = caller.block_lane()
    queued = caller.submit(SECRET)
    refusals = [caller.request("DELETE", f"/v1/jobs/{job_id}/content") for job_id in (running, queued)]
    caller.cancel(queued)
    caller.cancel(running)
    recovering = caller.submit("[fake:unknown] x", model=METERED)
    caller.wait(recovering)
    refusals.append(caller.request("DELETE", f"/v1/jobs/{recovering}/content"))

    assert {(400, "invalid_request")} == {error_code(answer) for answer in refusals}
    for answer, state in zip(refusals, ("running", "queued", "recovery_required"), strict=True):
        assert state in answer.json()["error"]["message"]
    assert 200 == caller.get(f"/v1/jobs/{recovering}/request").status_code
    paid.service.command("admin", "recover", "void", recovering)
    assert "failed" == erase(caller, recovering)["state"]


def test_an_unused_input_can_be_erased(operator: Operator) -> None:
    """Its bytes leave the disk, reading it is 410, and no job can name it any more (R46, R112)."""
    caller = operator.caller(credit="10")
    artifact_id = upload(caller)
    file = operator.blob_file(artifact_id)
    before = caller.get(f"/v1/artifacts/{artifact_id}/content").status_code
    answer = caller.request("DELETE", f"/v1/artifacts/{artifact_id}")

    assert (200, 200, False) == (before, answer.status_code, file.exists())
    assert (410, "erased") == error_code(caller.get(f"/v1/artifacts/{artifact_id}/content"))
    assert [("input_artifact_ids", "unknown_input")] == caller.refused(body(artifact_id))


def test_an_input_that_an_open_job_needs_is_not_erased(operator: Operator) -> None:
    """While its job runs it is refused; afterwards input, transcript and parts all go, the charge stays
    (R134)."""
    caller = operator.caller(credit="10")
    artifact_id = upload(caller, recording(seconds=3, directive=1108))
    job_id = caller.post_job(body(artifact_id)).json()["id"]
    refused = caller.request("DELETE", f"/v1/artifacts/{artifact_id}")
    operation = caller.wait(job_id)
    money = operator.money(caller)
    transcript = caller.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content")
    erase(caller, job_id)
    erased = caller.request("DELETE", f"/v1/artifacts/{artifact_id}")
    rows = operator.row("select count(*) as kept from part where job_id = :id", id=job_id)

    assert (400, "invalid_request") == error_code(refused)
    assert ("succeeded", 200, 200) == (operation["state"], transcript.status_code, erased.status_code)
    for each in (artifact_id, operation["artifacts"][0]["id"]):
        assert (410, "erased") == error_code(caller.get(f"/v1/artifacts/{each}/content"))
    assert 0 == rows["kept"]
    assert money == operator.money(caller)


def test_an_upload_whose_bytes_were_erased_is_not_answered_as_if_they_were_there(operator: Operator) -> None:
    """Its key answers 410: a client that resumes sends the recording under a new one (R112, R151)."""
    caller = operator.caller()
    sound = recording()
    first = post(caller, sound, Idempotency_Key="first")
    again = post(caller, sound, Idempotency_Key="first")
    caller.request("DELETE", f"/v1/artifacts/{first.json()['artifact']['id']}")
    erased = post(caller, sound, Idempotency_Key="first")
    anew = post(caller, sound, Idempotency_Key="second")

    assert first.json() == again.json()
    assert (410, "erased") == error_code(erased)
    assert 201 == anew.status_code
    assert sound == caller.get(f"/v1/artifacts/{anew.json()['artifact']['id']}/content").content
