"""Two people, every route of the studio, every id: what is not yours is not there (P12, P13, P15).

The routes are those of the code and of the document, so the next one is asked too.
"""

import hashlib
import itertools
import json
import re
from typing import Any

import pytest

from features.studio.browsers import START_MS, Browser, Studio
from features.studio.conftest import Open
from servers.document import routes
from tenuto.features.decoding.wav import pcm16_wav
from tenuto.features.studio.app import ROUTES
from tenuto.ids import Ids

PUBLIC = {
    "/web/session",
    "/web/setup",
    "/web/register",
    "/web/invitations/accept",
    "/web/login",
    "/web/logout",
}
"""What somebody who has not signed in may ask."""
KINDS = {
    "operation_id": "job",
    "job_id": "job",
    "segment_id": "segment",
    "artifact_id": "artifact",
    "voice_id": "voice",
    "key_id": "key",
    "account_id": "account",
    "webhook_id": "webhook",
    "delivery_id": "delivery",
}
OWN = [(method, path) for path, handlers in ROUTES.items() for method in handlers]
SAME = [(route.method, "/web" + route.path) for route in routes() if route.wants_key]
BODIES = {route.path: route.body_type for route in routes() if route.body_type}
ROTATION = "/web/keys/{key_id}/rotation"

_ids = Ids(lambda: START_MS)


@pytest.fixture
def studio(open_studio: Open) -> Studio:
    """A studio where everybody may register and have webhooks."""
    return open_studio(registration="open", initial_credit="0", webhooks="any", requests_per_second=0)


@pytest.fixture
def owner_and_ids(studio: Studio) -> tuple[Browser, dict[str, str]]:
    """Somebody with a job, a voice, a key, and a webhook that has a message."""
    owner = studio.person("owner")
    studio.open_lane()
    content = pcm16_wav(bytes(2 * 8_000), 8_000, 1)
    headers = {
        "Content-Type": "audio/wav",
        "X-Service-Voice-Name": "mine",
        "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest(),
    }
    voice = owner.request("POST", "/web/v1/voices", headers=headers, content=content)
    job = owner.request(
        "POST",
        "/web/v1/jobs",
        headers={"Idempotency-Key": "one"},
        json={"model": "fake/speech", "parameters": {"text": "The owner's."}},
    )
    key = owner.post("/web/keys", {"name": "owner's"})
    webhook = {"url": "http://127.0.0.1:9/", "events": ["job.failed"]}
    webhook_id = owner.request("POST", "/web/v1/webhooks", json=webhook).json()["id"]
    delivery = owner.request("POST", f"/web/v1/webhooks/{webhook_id}/test")
    account = owner.get("/web/session").json()["account"]["id"]
    ids = {
        "voice": voice.json()["voice_id"],
        "job": job.json()["id"],
        "key": key.json()["id"],
        "account": account,
        "webhook": webhook_id,
        "delivery": delivery.json()["id"],
    }
    return owner, ids


def test_nobody_is_let_in_without_a_session(studio: Studio) -> None:
    """Every route but those for signing in says 401 without a session, whatever is asked (P15)."""
    browser, told = studio.browser(), {}
    key = studio.person("somebody").post("/web/keys", {"name": "mine"}).json()["key"]
    head = {"Authorization": f"Bearer {key}"}
    for method, path in OWN + SAME:
        asked = re.sub(r"\{\w+\}", "x", path) + "?a=1&a=2"
        answer = browser.request(method, asked, headers=head, content=b"{")
        assert "www-authenticate" not in answer.headers
        shown = answer.json() if answer.content else {}
        told[(method, path)] = (answer.status_code, shown.get("error", {}).get("code"))

    assert {(401, "not_signed_in")} == {seen for (_, path), seen in told.items() if path not in PUBLIC}
    assert not {(401, "not_signed_in")} & {seen for (_, path), seen in told.items() if path in PUBLIC}


def test_the_operators_routes_are_the_operators(
    studio: Studio, owner_and_ids: tuple[Browser, dict[str, str]]
) -> None:
    """To others there is one answer, for ids that exist and those that don't; nothing is changed (P12)."""
    stranger = studio.person("stranger")
    before = _rows(studio)
    told = {
        (method, path): [
            _told(stranger, method, path, dict.fromkeys(_names(path), found), ("", b"{}"))
            for found in (*owner_and_ids[1].values(), _ids.new("job"), "x")
        ]
        for method, path in OWN
        if path.startswith("/web/operator/")
    }

    assert {403} == {status for answers in told.values() for status, _, _ in answers}
    assert [] == [route for route, answers in told.items() if answers != [answers[0]] * len(answers)]
    assert before == _rows(studio)


def test_a_foreign_id_is_one_that_nobody_has(
    studio: Studio, owner_and_ids: tuple[Browser, dict[str, str]]
) -> None:
    """Of whatever kind it is, and wherever it stands in the path (P12)."""
    stranger = studio.person("stranger")
    before = _rows(studio)
    statuses: dict[int, list[tuple[str, str]]] = {}
    different = []
    for method, path in OWN + SAME:
        names = _names(path)
        if not names or path.startswith(("/web/operator/", "/web/v1/models/")):
            continue
        body = "application/json" if path == ROTATION else BODIES.get(path.removeprefix("/web"))
        fields = {"grace_hours": 1} if path == ROTATION else {"name": "renamed"}
        if "webhook_id" in names:
            fields = {"description": "renamed"}
        content = (body, json.dumps(fields).encode()) if body else ("", b"")
        missing = _told(stranger, method, path, {name: _ids.new(KINDS[name]) for name in names}, content)
        statuses.setdefault(missing[0], []).append((method, path))
        for chosen in itertools.product([*owner_and_ids[1].values(), "x"], repeat=len(names)):
            ids = dict(zip(names, chosen, strict=True))
            if _told(stranger, method, path, ids, content) != missing:
                different.append((method, path, ids))

    assert {404} == set(statuses), statuses
    assert [] == different
    assert before == _rows(studio)


def test_every_name_in_a_path_is_known() -> None:
    """A new one is first said to be somebody's id: then it is asked above."""
    paths = [path for _, path in OWN + SAME if not path.startswith("/web/v1/models/")]
    names = {name for path in paths for name in _names(path)}

    assert set(KINDS) == names


def _names(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)


def _told(
    browser: Browser, method: str, path: str, ids: dict[str, str], content: tuple[str, bytes]
) -> tuple[int, Any, str]:
    """Status, headers and body of an answer, but for what is of this one answer."""
    media_type, body = content
    headers = {"Content-Type": media_type} if media_type else {}
    answer = browser.request(method, path.format(**ids), headers=headers, content=body)
    shown = sorted((name, value) for name, value in answer.headers.items() if name != "x-request-id")
    return answer.status_code, shown, answer.text.replace(answer.headers["x-request-id"], "REQUEST")


def _rows(studio: Studio) -> list[str]:
    """What there is of accounts, keys, jobs, voices and money."""
    found = []
    for table in ("account", "api_key", "job", "voice", "entry", "webhook", "webhook_delivery"):
        rows = studio.database.read(lambda tx, table=table: tx.all(f"select * from {table}"))  # type: ignore[misc]
        found += sorted(" ".join(f"{name}={row[name]}" for name in row.keys()) for row in rows)  # noqa: SIM118
    return found


def test_openais_paths_are_off_under_web_too(open_studio: Open) -> None:
    """`openai_routes = "off"` removes them there as well."""
    studio = open_studio(registration="open", openai_routes="off")
    person = studio.person("owner")

    assert 404 == person.post("/web/v1/audio/speech", {"input": "x"}).status_code
    assert 200 == person.get("/web/v1/models").status_code
