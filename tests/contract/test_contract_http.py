"""What every answer has: a request id, JSON, the format of errors."""

import re

import pytest

from servers.callers import Caller, error_code, job

pytestmark = pytest.mark.variant("database", only="postgresql")

REQUEST_ID = re.compile("req_[0-9a-hjkmnp-tv-z]{26}")


def test_every_answer_has_a_request_id(caller: Caller) -> None:
    """x-request-id is on every answer, new each time, and in the body of every error."""
    operation = caller.wait(caller.submit())
    content = f"/v1/artifacts/{operation['artifacts'][0]['id']}/content"
    answers = [
        caller.get("/livez"),
        caller.get("/readyz"),
        caller.get("/v1/models"),
        caller.get("/v1/jobs"),
        caller.get(f"/v1/jobs/{operation['id']}"),
        caller.get(content),
        caller.get(content, {"Range": "bytes=0-1"}),
        caller.get(content, {"Range": "bytes=99999999-"}),
        caller.get(content, {"If-None-Match": "*"}),
        caller.request("HEAD", content),
        caller.post_job(job(), key="one"),
        caller.post_job(job(), key="one"),
        caller.post_job(job("other"), key="one"),
        caller.post_job(job(" ")),
        caller.post_job(b"{"),
        caller.post_job(b" " * (1024 * 1024 + 1)),
        caller.post_job(job(), headers={"Content-Type": "text/plain"}),
        caller.post_job(job(), headers={"Authorization": "Bearer x"}),
        caller.get("/v1/jobs/x"),
        caller.get("/nowhere"),
        caller.get("/"),
        caller.request("DELETE", "/v1/jobs"),
        caller.request("OPTIONS", "/v1/jobs"),
        caller.get("/v1/jobs", {"Host": "a, b"}),
        caller.get("/" + "x" * 9000),
        caller.get("/v1/jobs", {"X-Long": "x" * 40_000}),
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]

    assert all(REQUEST_ID.fullmatch(each) for each in ids)
    assert len(ids) == len(set(ids))
    for answer, request_id in zip(answers, ids, strict=True):
        if answer.status_code >= 400 and answer.request.method != "HEAD":
            assert request_id == answer.json()["error"]["request_id"]


def test_an_error_has_one_shape(caller: Caller) -> None:
    """Message, type, code, param, details and request id are there in every error (R207)."""
    for answer in (caller.post_job(job(" ")), caller.get("/v1/jobs/x"), caller.get("/nowhere")):
        assert "application/json" == answer.headers["content-type"]
        assert ["error"] == list(answer.json())
        assert {"message", "type", "code", "param", "details", "request_id"} == set(answer.json()["error"])


def test_nothing_else_is_served(caller: Caller) -> None:
    """Every path of the API begins with /v1; what is not there is 404 as JSON (R2)."""
    for path in ("/nothing", "/v1/", "/v2/jobs", "/web/", "/v1//jobs", "/V1/jobs", "/metrics"):
        assert (404, "not_found") == error_code(caller.get(path)), path


def test_another_method_is_405(caller: Caller) -> None:
    """A method that a path does not answer is refused with those that it does."""
    job_path = "/v1/jobs/job_00000000000000000000000000"
    for method, path, allowed in (
        ("DELETE", "/v1/jobs", "GET, HEAD, POST"),
        ("GET", f"{job_path}/cancel", "POST"),
        ("TRACE", "/v1/models", "GET, HEAD"),
    ):
        answer = caller.request(method, path)
        assert (405, "method_not_allowed") == error_code(answer)
        assert allowed == answer.headers["allow"]


def test_head_is_get_without_the_body(caller: Caller) -> None:
    """HEAD answers for lists, jobs, models and results as GET does; probes want no key."""
    job_id = caller.submit()
    artifact_id = caller.wait(job_id)["artifacts"][0]["id"]

    for path in ("/v1/models", "/v1/jobs", f"/v1/jobs/{job_id}", f"/v1/artifacts/{artifact_id}/content"):
        got, head = caller.get(path), caller.request("HEAD", path)
        assert (200, b"", got.headers["content-length"]) == (
            head.status_code,
            head.content,
            head.headers["content-length"],
        )
    for path in ("/livez", "/readyz"):
        answer = caller.http.get(path)
        assert (200, {"status": "ok"}) == (answer.status_code, answer.json())
