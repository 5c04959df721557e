"""The console as its pages call it: register, sign in, make a key, and do with a session what keys do."""

import hashlib
import itertools
import json
import uuid
from collections.abc import Iterator

import httpx2
import pytest

from servers.callers import SPEECH, Operator, error_code
from servers.recordings import recording

pytestmark = pytest.mark.variant("database", only="postgresql")

PASSWORD = "a long enough password"


_addresses = itertools.count(1)


@pytest.fixture
def pages(paid: Operator) -> Iterator[httpx2.Client]:
    """A browser on the studio's own pages."""
    with browser(paid) as client:
        yield client


def test_an_account_registers_and_signs_in(paid: Operator, pages: httpx2.Client) -> None:
    """Registration signs in; signing out ends that; name and password let in again (R206).

    The password stands in no log and no table.
    """
    name, password = register(pages)
    known = pages.get("/web/session").json()["account"]["name"]
    pages.post("/web/logout")
    out = pages.get("/web/session").json()["signed_in"]
    wrong = pages.post("/web/login", json={"name": name, "password": PASSWORD + "?"})
    again = pages.post("/web/login", json={"name": name, "password": password})
    log = paid.service.log_path.read_text()
    row = paid.row("select password_hash from login join account on id = account_id where name = :n", n=name)

    assert (name, False) == (known, out)
    assert (401, "invalid_login") == error_code(wrong)
    assert (200, name) == (again.status_code, again.json()["account"]["name"])
    assert password not in log
    assert pages.cookies["tenuto_session"] not in log
    assert row["password_hash"].startswith("$argon2id$")


def test_a_registered_account_makes_a_key_by_itself(paid: Operator, pages: httpx2.Client) -> None:
    """Nobody approves it; restricted to a model it stays so; its jobs are the account's (R201, R202)."""
    register(pages)
    made = pages.post("/web/keys", json={"name": "laptop", "models": [SPEECH]}).json()
    head = {"Authorization": f"Bearer {made['key']}"}
    with httpx2.Client(base_url=paid.service.url, headers=head) as api:
        models = [model["id"] for model in api.get("/v1/models").json()["data"]]
        refused = submit(api, "/v1/jobs", model="fake/image", prompt="a cat")
        job_id = submit(api, "/v1/jobs", text="By key.").json()["id"]
    seen = pages.get(f"/web/v1/jobs/{job_id}?wait=20").json()
    pages.delete(f"/web/keys/{made['id']}")
    revoked = httpx2.get(f"{paid.service.url}/v1/models", headers=head)

    assert [SPEECH] == models
    assert (403, "model_not_allowed") == error_code(refused)
    assert job_id == seen["id"]
    assert (401, "invalid_api_key") == error_code(revoked)
    assert made["key"] not in paid.service.log_path.read_text()


def test_a_session_does_what_a_key_does(paid: Operator, pages: httpx2.Client) -> None:
    """A job, its file in ranges, an upload and a streamed chat, by the cookie alone (R206)."""
    register(pages)
    accepted = submit(pages, "/web/v1/jobs", text="Hold the note.")
    job_id = accepted.json()["id"]
    operation = pages.get(f"/web/v1/jobs/{job_id}?wait=20").json()
    while operation["state"] not in ("succeeded", "failed"):
        operation = pages.get(f"/web/v1/jobs/{job_id}?wait=20").json()
    path = f"/web/v1/artifacts/{operation['artifacts'][0]['id']}/content"
    whole = pages.get(path)
    part = pages.get(path, headers={"Range": "bytes=0-3"})
    sound = recording()
    head = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": hashlib.sha256(sound).hexdigest()}
    uploaded = pages.post("/web/v1/input-artifacts", content=sound, headers=head)
    chat = {"model": "fake/chat", "messages": [{"role": "user", "content": "Say it."}], "stream": True}
    streamed = pages.post("/web/v1/chat/completions", json=chat)
    events = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line]

    assert f"/web/v1/jobs/{job_id}" == accepted.headers["location"]
    assert operation["artifacts"][0]["sha256"] == hashlib.sha256(whole.content).hexdigest()
    assert (206, b"RIFF", "audio/wav") == (part.status_code, part.content, part.headers["content-type"])
    assert head["X-Service-Content-SHA256"] == uploaded.json()["artifact"]["sha256"]
    assert "text/event-stream; charset=utf-8" == streamed.headers["content-type"]
    assert "[DONE]" == events[-1]
    assert "Say it." == "".join(
        json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1]
    )
    assert "0.950000" == pages.get("/web/v1/account/balance").json()["available"]


def browser(paid: Operator) -> httpx2.Client:
    """Each from its own address, because registrations per address are limited."""
    headers = {"Origin": paid.service.url, "X-Forwarded-For": f"10.0.0.{next(_addresses)}"}
    return httpx2.Client(base_url=paid.service.url, headers=headers, timeout=120)


def register(pages: httpx2.Client) -> tuple[str, str]:
    """Make an account, which is then signed in; its name and password."""
    name, password = f"person-{uuid.uuid4()}", f"{PASSWORD} {uuid.uuid4()}"
    answer = pages.post("/web/register", json={"name": name, "password": password})
    assert answer.status_code == 201, answer.text
    return name, password


def submit(client: httpx2.Client, path: str, *, model: str = SPEECH, **parameters: str) -> httpx2.Response:
    head = {"Idempotency-Key": str(uuid.uuid4())}
    return client.post(path, json={"model": model, "parameters": parameters}, headers=head)


def test_another_accounts_session_sees_nothing(paid: Operator, pages: httpx2.Client) -> None:
    """What one has made is not there for the other (P12)."""
    register(pages)
    job_id = submit(pages, "/web/v1/jobs", text="Mine.").json()["id"]
    with browser(paid) as other:
        register(other)
        answers = [
            other.get(f"/web/v1/jobs/{job_id}"),
            other.get(f"/web/v1/jobs/{job_id}/request"),
            other.get(f"/web/jobs/{job_id}/ledger"),
            other.post(f"/web/v1/jobs/{job_id}/cancel"),
        ]

    assert {(404, "not_found")} == {error_code(answer) for answer in answers}
