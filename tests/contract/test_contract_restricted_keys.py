"""Jobs are listed, cancelled and erased by those keys of their account that may use their model (P13).

It does not matter which key submitted them. Records, artifacts and segments are the account's (R50).
"""

import httpx2
import pytest

from contract.test_contract_segments import content, listed
from servers.callers import METERED, SPEECH, Caller, Operator, error_code
from servers.document import Route, routes
from servers.recordings import body, upload

OF_A_JOB = [route for route in routes() if "operation_id" in route.path_names]
OF_THE_ACCOUNT = {"showJob", "listAudioSegments", "readAudioSegmentContent"}
"""What every key of the account may read of a job, by its name in the document."""
GUARDED = [route for route in OF_A_JOB if route.name not in OF_THE_ACCOUNT]


@pytest.fixture
def narrow(operator: Operator, caller: Caller) -> Caller:
    """A second key of the caller's account, for the metered model alone."""
    return operator.key(caller.account_id, models=[METERED])


def ask(caller: Caller, route: Route, job_id: str) -> httpx2.Response:
    return caller.request(route.method, route.at(operation_id=job_id))


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.name)
def test_a_job_of_another_model_is_refused(
    operator: Operator, caller: Caller, narrow: Caller, route: Route
) -> None:
    """403 `model_not_allowed` before and after its owner looked at it; nothing has happened (P13).

    A job of its own model is answered, whichever key of the account submitted it. One of another account is
    not there: a 403 would tell that it exists (R50, P12).
    """
    own, foreign = caller.submit(model=METERED), operator.caller().submit()
    caller.wait(own)
    job_id = caller.submit()
    before = caller.wait(job_id)
    refused = [ask(narrow, route, job_id)]
    # Final jobs are answered from a cache once somebody has read them.
    caller.read(job_id)
    refused.append(ask(narrow, route, job_id))

    assert [(403, "model_not_allowed")] * 2 == [error_code(answer) for answer in refused]
    assert before == caller.read(job_id)
    assert 200 == ask(caller, route, job_id).status_code == ask(narrow, route, own).status_code
    assert (404, "not_found") == error_code(ask(narrow, route, foreign))


def test_a_running_job_is_not_cancelled(caller: Caller, narrow: Caller) -> None:
    """By a key that may only read its record (P13)."""
    job_id = caller.block_lane()
    cancelled = narrow.request("POST", f"/v1/jobs/{job_id}/cancel")
    running = narrow.read(job_id)
    caller.cancel(job_id)

    assert (403, "model_not_allowed") == error_code(cancelled)
    assert "running" == running["state"]
    assert not running["cancel_requested"]


def test_lists_have_the_jobs_of_its_models_only(operator: Operator, caller: Caller, narrow: Caller) -> None:
    """Pages are full and none is left out; a filter by another model is refused (P13)."""
    own = [caller.submit(model=model) for model in (METERED, SPEECH, METERED, SPEECH, METERED)][::2]
    first = narrow.get("/v1/jobs?limit=2").json()
    second = narrow.get(f"/v1/jobs?limit=2&after={first['next_cursor']}").json()
    nothing = operator.key(caller.account_id, models=[])

    assert own[::-1] == [each["id"] for page in (first, second) for each in page["data"]]
    assert "next_cursor" not in second
    assert 5 == len(caller.get("/v1/jobs").json()["data"])
    assert own[::-1] == [each["id"] for each in narrow.get(f"/v1/jobs?model={METERED}").json()["data"]]
    assert (403, "model_not_allowed") == error_code(narrow.get(f"/v1/jobs?model={SPEECH}"))
    assert [] == nothing.get("/v1/jobs").json()["data"]


def test_usage_has_the_lines_of_its_models_only(caller: Caller, narrow: Caller) -> None:
    """Balance and ledger are the account's; usage says what was made with which model (P13)."""
    for model in (METERED, SPEECH):
        caller.wait(caller.submit(model=model))

    assert {METERED, SPEECH} == {line["model"] for line in caller.get("/v1/usage").json()["data"]}
    assert {METERED} == {line["model"] for line in narrow.get("/v1/usage").json()["data"]}
    assert caller.get("/v1/account/ledger").json() == narrow.get("/v1/account/ledger").json()


def test_records_artifacts_and_segments_are_the_accounts(caller: Caller, narrow: Caller) -> None:
    """The contract says that results are read with the same account's key, restricted or not: who may
    download one may follow its job to it (R50, R204).
    """
    job_id = caller.submit(stream=True)
    artifact_id = caller.wait(job_id)["artifacts"][0]["id"]
    segments = listed(narrow, job_id)

    assert 200 == narrow.get(f"/v1/artifacts/{artifact_id}/content").status_code
    assert [caller.read(job_id)] * 2 == [narrow.read(job_id), narrow.get(f"/v1/jobs/{job_id}?wait=1").json()]
    assert segments
    assert {200} == {content(narrow, job_id, segment).status_code for segment in segments}


def test_a_result_of_another_model_is_not_erased(caller: Caller, narrow: Caller) -> None:
    """Reading is every key's, erasing is not (P13)."""
    artifact_id = caller.wait(caller.submit())["artifacts"][0]["id"]
    own_id = caller.wait(caller.submit(model=METERED))["artifacts"][0]["id"]
    refused = narrow.request("DELETE", f"/v1/artifacts/{artifact_id}")

    assert (403, "model_not_allowed") == error_code(refused)
    assert 200 == narrow.get(f"/v1/artifacts/{artifact_id}/content").status_code
    assert 200 == narrow.request("DELETE", f"/v1/artifacts/{own_id}").status_code


def test_an_input_is_erased_by_keys_whose_models_take_inputs(operator: Operator) -> None:
    """An upload has no model; a key for speech alone has no business with it (P13)."""
    caller = operator.caller(credit="10")
    input_id = upload(caller)
    speech = operator.key(caller.account_id, models=[SPEECH])
    recognition = operator.key(caller.account_id, models=["fake/segment-text"])
    refused = speech.request("DELETE", f"/v1/artifacts/{input_id}")

    assert (403, "model_not_allowed") == error_code(refused)
    assert 202 == caller.post_job(body(input_id)).status_code
    other_id = upload(caller)
    assert 200 == recognition.request("DELETE", f"/v1/artifacts/{other_id}").status_code
