"""The console as its pages call it: register, make a key, and do with a session what keys do.

Everything else about sessions is in tests/features/studio.
"""

import hashlib
import json
import uuid

import httpx2
import pytest

from servers.callers import SPEECH, Operator, error_code
from servers.recordings import recording

pytestmark = pytest.mark.variant("database", only="postgresql")


def submit(client: httpx2.Client, path: str, *, model: str = SPEECH, **parameters: str) -> httpx2.Response:
    head = {"Idempotency-Key": str(uuid.uuid4())}
    return client.post(path, json={"model": model, "parameters": parameters}, headers=head)


def test_a_registered_account_works_by_its_session_and_by_a_key_of_its_own(paid: Operator) -> None:
    """Nobody approves the key; restricted to a model it stays so; its jobs are the account's. A job, its file
    in ranges, an upload and a streamed chat go by the cookie alone. Password, cookie and key stand in no log
    (R201, R202, R206)."""
    name, password = f"person-{uuid.uuid4()}", f"a long enough password {uuid.uuid4()}"
    headers = {"Origin": paid.service.url, "X-Forwarded-For": "10.0.0.1"}
    with httpx2.Client(base_url=paid.service.url, headers=headers, timeout=120) as pages:
        registered = pages.post("/web/register", json={"name": name, "password": password})
        made = pages.post("/web/keys", json={"name": "laptop", "models": [SPEECH]}).json()
        head = {"Authorization": f"Bearer {made['key']}"}
        with httpx2.Client(base_url=paid.service.url, headers=head) as api:
            models = [model["id"] for model in api.get("/v1/models").json()["data"]]
            refused = submit(api, "/v1/jobs", model="fake/image", prompt="a cat")
            by_key = submit(api, "/v1/jobs", text="By key.").json()["id"]
            seen = pages.get(f"/web/v1/jobs/{by_key}").json()
            pages.delete(f"/web/keys/{made['id']}")
            revoked = api.get("/v1/models")
        accepted = submit(pages, "/web/v1/jobs", text="Hold the note.")
        job_id = accepted.json()["id"]
        while (job := pages.get(f"/web/v1/jobs/{job_id}?wait=20").json())["state"] in ("queued", "running"):
            continue
        path = f"/web/v1/artifacts/{job['artifacts'][0]['id']}/content"
        whole, part = pages.get(path), pages.get(path, headers={"Range": "bytes=0-3"})
        sound = recording()
        checksum = hashlib.sha256(sound).hexdigest()
        upload = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": checksum}
        uploaded = pages.post("/web/v1/input-artifacts", content=sound, headers=upload)
        chat = {"model": "fake/chat", "messages": [{"role": "user", "content": "Say it."}], "stream": True}
        streamed = pages.post("/web/v1/chat/completions", json=chat)
        cookie = pages.cookies["tenuto_session"]
    events = [line.removeprefix("data: ") for line in streamed.text.splitlines() if line]
    said = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1]]
    log = paid.service.log_path.read_text()

    assert 201 == registered.status_code, registered.text
    assert ([SPEECH], by_key) == (models, seen["id"])
    assert (403, "model_not_allowed") == error_code(refused)
    assert (401, "invalid_api_key") == error_code(revoked)
    assert f"/web/v1/jobs/{job_id}" == accepted.headers["location"]
    assert job["artifacts"][0]["sha256"] == hashlib.sha256(whole.content).hexdigest()
    assert (206, b"RIFF", "audio/wav") == (part.status_code, part.content, part.headers["content-type"])
    assert checksum == uploaded.json()["artifact"]["sha256"]
    assert ("Say it.", "[DONE]") == ("".join(said), events[-1])
    assert not [secret for secret in (password, cookie, made["key"]) if secret in log]
