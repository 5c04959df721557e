"""Two accounts, every route of the document, every id: another account's things do not exist (P12).

The owner has one of everything. A stranger asks for it by every route that takes an id; what it is answered
must be, but for the request id, what it is answered for an id that nobody has.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from servers.accounts import now_ms
from servers.callers import Caller, Operator, job
from servers.document import Route, fields_of_bodies, routes
from servers.recordings import body as recognition
from servers.recordings import post as post_recording
from servers.recordings import recording as a_recording
from servers.recordings import upload as upload_recording
from servers.voices import own_voice, recording
from servers.voices import upload as upload_voice
from tenuto import config
from tenuto.api.app import routes_of
from tenuto.ids import Ids

KINDS = {
    "operation_id": "job",
    "segment_id": "segment",
    "artifact_id": "artifact",
    "voice_id": "voice",
    "webhook_id": "webhook",
    "delivery_id": "delivery",
}
"""What each id in a path refers to."""
QUERIES = {
    ("listJobs", "after"): "job",
    ("listJobs", "voice"): "voice",
    ("listAudioSegments", "attempt_id"): "attempt",
    ("listVoices", "after"): "voice",
    ("listLedger", "after"): "entry",
    ("followEvents", "after"): "job",
    ("listWebhookDeliveries", "after"): "delivery",
}
"""Queries that take ids; the others name numbers, days, states and models."""
NO_IDS = {"state", "kind", "model", "limit", "wait", "since", "until", "form"} | {
    *("q", "metadata", "created_from", "created_before")
}
BODY_FIELDS = {"voice_id", "emotion_voice_id", "input_artifact_ids"}
"""Fields of bodies that take ids."""
NOT_OURS = {"tool_call_id"}
"""Fields of bodies that take ids which others made, and which are looked up nowhere."""
OF_EACH_ANSWER = {"x-request-id", "date"}
TEXT = "What the owner alone has said."

_ids = Ids(now_ms)


@dataclass(frozen=True)
class Belongings:
    """One of everything that an account can have, by the kind of its id."""

    caller: Caller
    ids: dict[str, list[str]]

    def all(self) -> list[str]:
        return [each for found in self.ids.values() for each in found]


@pytest.fixture(scope="module")
def owner(operator: Operator) -> Belongings:
    """Jobs that ended, wait and were erased; segments, results, an input, a voice, ledger lines."""
    caller = operator.caller(credit="100")
    spoken = caller.submit(TEXT, stream=True)
    caller.wait(spoken)
    erased = caller.submit(TEXT)
    caller.wait(erased)
    caller.request("DELETE", f"/v1/jobs/{erased}/content")
    recording_id = upload_recording(caller)
    heard = caller.post_job(recognition(recording_id)).json()["id"]
    caller.wait(heard)
    waiting = caller.submit(f"[fake:sleep=0.1] {TEXT}")
    segments = caller.get(f"/v1/jobs/{spoken}/audio-segments").json()["data"]
    results = [caller.read(each)["artifacts"][0]["id"] for each in (spoken, heard)]
    ledger = caller.get("/v1/account/ledger").json()["data"]
    ids = {
        "job": [spoken, erased, heard, waiting],
        "segment": [segments[0]["segment_id"]],
        "attempt": [segments[0]["attempt_id"]],
        "artifact": [*results, recording_id],
        "voice": [own_voice(caller)],
        "entry": [ledger[0]["id"]],
        **_webhook(caller),
    }
    caller.wait(waiting)
    return Belongings(caller, ids)


@pytest.fixture(scope="module")
def stranger(operator: Operator) -> Belongings:
    """Another account, with a job that has segments, so that a foreign part of an own whole can be asked."""
    caller = operator.caller(credit="100")
    job_id = caller.submit("Mine.", stream=True)
    caller.wait(job_id)
    segments = caller.get(f"/v1/jobs/{job_id}/audio-segments").json()["data"]
    ids = {"job": [job_id], "segment": [segments[0]["segment_id"]], **_webhook(caller)}
    return Belongings(caller, ids)


def _webhook(caller: Caller) -> dict[str, list[str]]:
    """A webhook to a server that nobody has, and a message to it."""
    content = json.dumps({"url": "http://192.0.2.1/", "events": ["job.failed"]}).encode()
    json_type = {"Content-Type": "application/json"}
    webhook = caller.request("POST", "/v1/webhooks", headers=json_type, content=content).json()
    delivery = caller.request("POST", f"/v1/webhooks/{webhook['id']}/test").json()
    return {"webhook": [webhook["id"]], "delivery": [delivery["id"]]}


MODEL = {"owner", "model"}
"""Names in paths that are words of the catalog, which everybody may know."""
BY_PATH = [route for route in routes() if route.path_names and not MODEL & set(route.path_names)]


def test_every_place_for_an_id_is_known() -> None:
    """A new name in a path, a query or a body must be classified as an id or not, and is then tested
    below."""
    paths = {name for route in BY_PATH for name in route.path_names}
    queries = {(route.name, name) for route in routes() for name in route.query_names if name not in NO_IDS}
    bodies = {name for name in fields_of_bodies() if name.endswith(("_id", "_ids"))}

    table = routes_of(config.load({}))
    served = {(method, _plain(path)) for path, handlers in table.items() for method in handlers}

    assert {(route.method, _plain(route.path)) for route in routes()} == served
    assert set(KINDS) == paths
    assert set(QUERIES) == queries
    assert BODY_FIELDS | NOT_OURS == bodies


@pytest.mark.parametrize("route", BY_PATH, ids=lambda route: route.name)
def test_a_foreign_id_in_a_path_is_one_that_nobody_has(
    owner: Belongings, stranger: Belongings, operator: Operator, route: Route
) -> None:
    """Foreign, missing and malformed ids have one answer, to any question; nothing is changed (P12, R29)."""
    before = _rows(operator, owner.caller)
    missing = _told(stranger.caller, route, {name: _ids.new(KINDS[name]) for name in route.path_names})
    different = [
        (asked, told)
        for asked in _not_theirs(route, owner, stranger)
        if (told := _told(stranger.caller, route, asked)) != missing
    ]

    assert 404 == missing[0][0]
    assert {404} | ({400} if route.body_type else set()) == {status for status, _, _ in missing}
    assert [] == different
    assert before == _rows(operator, owner.caller)


@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_a_foreign_id_in_a_query_is_one_that_nobody_has(
    owner: Belongings, stranger: Belongings, name: str, query: str
) -> None:
    """A foreign place in a list, or a foreign attempt, gives what a missing one gives (P12)."""
    route = next(each for each in routes() if each.name == name)
    kind = QUERIES[(name, query)]
    path = route.at(**{each: stranger.ids[KINDS[each]][0] for each in route.path_names})
    # The same moment, so that the place in the list is the same.
    missing = [each[:-6] + "000000" for each in owner.ids[kind]]
    answers = [
        _seen(stranger.caller.get(f"{path}?{query}={each}"), each) for each in owner.ids[kind] + missing
    ]

    assert [answers[-1]] * len(answers) == answers
    assert not any(each in told for each in owner.all() for _, _, told in answers)


def test_a_foreign_id_in_a_body_is_one_that_nobody_has(
    owner: Belongings, stranger: Belongings, operator: Operator
) -> None:
    """Voices, emotion references and inputs of others are refused like those that are not there (P12)."""
    bodies: dict[str, list[Callable[[str], Any]]] = {
        "voice": [lambda each: job(voice_id=each), lambda each: job(emotion_voice_id=each)],
        "artifact": [recognition],
    }
    for kind, makers in bodies.items():
        for make in makers:
            asked = [*owner.ids[kind], _ids.new(kind)]
            told = [_seen(stranger.caller.post_job(make(each)), each) for each in asked]
            assert [400] * len(asked) == [status for status, _, _ in told]
            assert 1 == len({shown for _, _, shown in told})
    choices = [
        _seen(_prefer(stranger.caller, each), each) for each in [*owner.ids["voice"], _ids.new("voice")]
    ]

    assert choices[0] == choices[1]
    assert 400 == choices[0][0]
    assert {"data": [], "default": None} == {
        name: stranger.caller.get("/v1/voice-preference").json()[name] for name in ("data", "default")
    }


def test_a_foreign_idempotency_key_is_a_new_one(operator: Operator) -> None:
    """The same key and the same body of two accounts are two jobs, two inputs and two voices (P2, P12)."""
    first, second = operator.caller(credit="100"), operator.caller(credit="100")
    key, sound, voice = str(uuid.uuid4()), a_recording(), recording(7)
    jobs, inputs, voices = [], [], []
    for caller in (first, second):
        jobs.append(caller.post_job(job("Both say this."), key=key))
        inputs.append(post_recording(caller, sound, Idempotency_Key=key))
        voices.append(upload_voice(caller, voice, Idempotency_Key=key + "v"))

    assert [202, 202] == [answer.status_code for answer in jobs]
    assert [201] * 4 == [answer.status_code for answer in inputs + voices]
    assert not any("idempotent-replayed" in answer.headers for answer in jobs + inputs + voices)
    assert 2 == len({answer.json()["id"] for answer in jobs})
    assert 2 == len({answer.json()["artifact"]["id"] for answer in inputs})
    assert 2 == len({answer.json()["voice_id"] for answer in voices})


@pytest.mark.parametrize(
    "route",
    [route for route in routes() if route.method == "GET" and route.wants_key and not route.path_names],
    ids=lambda route: route.name,
)
def test_no_list_shows_what_is_foreign(owner: Belongings, stranger: Belongings, route: Route) -> None:
    """Whatever can be read without an id names nothing of another account, on no page (P12)."""
    shown = stranger.caller.get(route.path + ("?limit=100" if "limit" in route.query_names else ""))

    assert 200 == shown.status_code
    assert [] == [each for each in (*owner.all(), owner.caller.account_id, TEXT) if each in shown.text]


def _plain(path: str) -> str:
    """A path whose names are left out: the document and the code call them differently."""
    return re.sub(r"\{\w+\}", "{}", path)


def _not_theirs(route: Route, owner: Belongings, stranger: Belongings) -> Iterator[dict[str, str]]:
    """Every way to name what is not the stranger's; of two ids the other is the owner's or its own."""
    for name in route.path_names:
        others = [each for each in route.path_names if each != name]
        for wrong in _foreign_and_malformed(KINDS[name], owner):
            for whose in (owner, stranger) if others else (owner,):
                yield {name: wrong} | {each: whose.ids[KINDS[each]][0] for each in others}


def _foreign_and_malformed(kind: str, owner: Belongings) -> list[str]:
    first = owner.ids[kind][0]
    malformed = [
        first[:-1],
        first + "0",
        first.upper(),
        first.replace("_", "%5F%00"),
        first + "%0A",
        "x",
        *("%2e", "%20", "%00", "%ff", "%ED%A0%80", "%E5%AD%97", "..%2f..%2fetc%2fpasswd", "a%2Fb"),
        *("' or 1=1 --", "%", "x" * 4000),
    ]
    others = [ids[0] for other, ids in owner.ids.items() if other != kind]
    return [*owner.ids[kind], *malformed, *others]


def _told(caller: Caller, route: Route, ids: dict[str, str]) -> list[tuple[int, Any, str]]:
    """A route's answers: to a plain request and, for reads, to a range request and HEAD."""
    path = route.at(**ids)
    changed = "description" if "webhook" in route.path else "name"
    content = json.dumps({changed: "renamed"}).encode() if route.body_type else None
    headers = {"Content-Type": route.body_type} if route.body_type else {}
    answers = [caller.request(route.method, path, headers=headers, content=content)]
    if route.method == "GET":
        answers += [
            caller.get(path, {"Range": "bytes=0-1"}),
            caller.get(path, {"If-None-Match": "*"}),
            caller.request("HEAD", path),
        ]
    if "wait" in route.query_names:
        answers.append(caller.get(path + "?wait=1"))
    if content is not None:
        answers.append(caller.request(route.method, path, headers=headers, content=b"{"))
    return [_seen(answer, "") for answer in answers]


def _seen(answer: httpx2.Response, asked: str) -> tuple[int, Any, str]:
    """Status, headers and body of an answer, without what is of this one answer or repeats the question."""
    headers = sorted(
        (name, value) for name, value in answer.headers.items() if name.lower() not in OF_EACH_ANSWER
    )
    shown = answer.text.replace(answer.headers["x-request-id"], "REQUEST")
    return answer.status_code, headers, shown.replace(asked, "ASKED") if asked else shown


def _prefer(caller: Caller, voice_id: str) -> httpx2.Response:
    content = json.dumps({"voice_id": voice_id}).encode()
    return caller.request(
        "PUT", "/v1/voice-preference", headers={"Content-Type": "application/json"}, content=content
    )


def _rows(operator: Operator, caller: Caller) -> list[str]:
    """All that an account owns, as it stands in the records."""
    tables = ("account", "job", "artifact", "voice", "voice_preference", "entry")
    found = []
    for table in tables:
        column = "id" if table == "account" else "account_id"
        rows = operator.database.read(
            lambda tx, table=table, column=column: tx.all(  # type: ignore[misc]
                f"select * from {table} where {column} = :id", id=caller.account_id
            )
        )
        found += sorted(" ".join(f"{name}={row[name]}" for name in row.keys()) for row in rows)  # noqa: SIM118
    return found
