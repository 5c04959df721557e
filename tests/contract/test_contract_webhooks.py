"""Webhooks over HTTP: made, signed, sent, tried again, disabled; and what is refused."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook

from servers import processes
from servers.callers import ON_ONE_DATABASE, Caller, Operator, error_code, faults
from servers.chats import PRICED, body, said
from servers.receiver import Message, Receiver, plainly

pytestmark = pytest.mark.variant("database", only="postgresql")

ENDED = ["job.succeeded", "job.failed", "job.cancelled"]
TEXT = "Nobody but its owner has read this."


@pytest.fixture
def owner(paid: Operator) -> Caller:
    """A new account with some credit."""
    return paid.caller(credit="10")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server that takes everything."""
    made = Receiver()
    yield made
    made.close()


def post(caller: Caller, path: str, body: Any = None, method: str = "POST") -> httpx2.Response:
    """A request with a JSON body, if there is one."""
    if body is None:
        return caller.request(method, path)
    content = json.dumps(body).encode()
    return caller.request(method, path, headers={"Content-Type": "application/json"}, content=content)


def made(caller: Caller, url: str, events: list[str] | None = None) -> dict[str, Any]:
    """A webhook, with its secret."""
    answer = post(caller, "/v1/webhooks", {"url": url, "events": events or ENDED})
    assert answer.status_code == 201, answer.text
    webhook: dict[str, Any] = answer.json()
    return webhook


def until(caller: Caller, webhook_id: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The newest delivery, once it is as expected."""
    end = time.monotonic() + 60
    while True:
        deliveries = caller.get(f"/v1/webhooks/{webhook_id}/deliveries").json()["data"]
        if deliveries and fits(deliveries[0]):
            newest: dict[str, Any] = deliveries[0]
            return newest
        assert time.monotonic() < end, deliveries
        time.sleep(0.05)


def test_a_message_says_what_happened_and_is_signed(owner: Caller, receiver: Receiver) -> None:
    """Type, time and the job, never its content; `standardwebhooks` and OpenAI's client accept it. After a
    rotation whoever still has the old secret accepts messages, as does who has the new one."""
    from openai import OpenAI

    webhook = made(owner, receiver.url)
    answer = owner.post_job(
        {"model": "fake/speech", "parameters": {"text": TEXT}, "metadata": {"chapter": "3"}}
    )
    job_id = answer.json()["id"]
    [message] = receiver.wait(1)
    Webhook(webhook["secret"]).verify(message.body, message.headers)
    client = OpenAI(api_key="none", webhook_secret=webhook["secret"])
    client.webhooks.verify_signature(message.body, message.headers)
    body = json.loads(message.body)
    fields = {
        "job_id": job_id,
        "state": "succeeded",
        "kind": "speech",
        "model": "fake/speech",
        "metadata": {"chapter": "3"},
    }

    assert {"type", "timestamp", "sequence", "data"} == set(body)
    assert 1 == body["sequence"]
    assert ("job.succeeded", fields) == (body["type"], body["data"])
    assert (f"{job_id}_2", "/hook") == (message.id, message.path)
    assert TEXT.encode() not in message.body
    assert "delivered" == until(owner, webhook["id"], lambda one: one["state"] != "pending")["state"]
    new = post(owner, f"/v1/webhooks/{webhook['id']}/rotate").json()["secret"]
    assert post(owner, f"/v1/webhooks/{webhook['id']}/test").status_code == 202
    tested = receiver.wait(2)[1]
    for secret in (webhook["secret"], new):
        Webhook(secret).verify(tested.body, tested.headers)
    assert "webhook.test" == json.loads(tested.body)["type"]


def test_a_webhook_is_sent_the_events_that_it_chose(owner: Caller, receiver: Receiver) -> None:
    """Of its own account's jobs, from when it was made; `job.cancelled` here, and nothing else."""
    owner.wait(owner.submit("Before."))
    made(owner, receiver.url, ["job.cancelled"])
    owner.wait(owner.submit("Not chosen."))
    job_id = owner.submit("[fake:sleep=20] x")
    owner.cancel(job_id)
    [message] = receiver.wait(1)

    assert ("job.cancelled", job_id) == (
        json.loads(message.body)["type"],
        json.loads(message.body)["data"]["job_id"],
    )


def test_a_low_balance_is_reported_once(paid: Operator, receiver: Receiver) -> None:
    """When the balance falls below the operator's limit, not again while it stays there."""
    owner = paid.caller(credit="2.04")
    made(owner, receiver.url, ["balance.low", "job.succeeded"])
    for _ in range(3):
        image = {"model": "fake/image", "parameters": {"prompt": "A note."}}
        owner.wait(owner.post_job(image).json()["id"])
    messages = [json.loads(message.body) for message in receiver.wait(4)]
    low = [message["data"] for message in messages if message["type"] == "balance.low"]

    assert 1 == len(low)
    assert "CNY" == low[0]["currency"]
    assert 4 == len(messages)


def test_a_low_balance_is_reported_without_a_job(paid: Operator, receiver: Receiver) -> None:
    """Chats have no events, nor has what the operator adds or takes back: the balance is looked at by itself,
    and falls again once it was above the limit."""
    chatter = paid.caller(credit="2.00002")
    name = paid.row("select name from account where id = :id", id=chatter.account_id)["name"]
    webhook_id = made(chatter, receiver.url, ["balance.low"])["id"]
    said(chatter, body(model=PRICED))
    receiver.wait(1)
    paid.service.command("admin", "accounts", "credit", name, "5")
    low = "select is_low from webhook where id = :id"
    processes.until(lambda: not paid.row(low, id=webhook_id)["is_low"], 60, "the credit is seen")
    paid.service.command("admin", "accounts", "credit", name, "-6")
    receiver.wait(2)
    messages = [json.loads(message.body) for message in receiver.messages]

    assert ["balance.low"] * 2 == [message["type"] for message in messages]
    assert [{"available": "0.999994", "currency": "CNY"}] == [message["data"] for message in messages[1:]]


def test_a_webhook_is_kept_changed_and_deleted(owner: Caller, receiver: Receiver) -> None:
    """The secret is shown once; what is changed is as it was given; a deleted one is not there."""
    webhook = made(owner, receiver.url)
    path = f"/v1/webhooks/{webhook['id']}"
    shown = {name: value for name, value in webhook.items() if name != "secret"}
    changed = post(owner, path, {"events": ["job.failed"], "description": "x", "enabled": False}, "PATCH")
    rotated = post(owner, f"{path}/rotate").json()
    deleted = owner.request("DELETE", path)

    assert webhook["secret"].startswith("whsec_")
    assert shown | {"events": ["job.failed"], "description": "x", "enabled": False} == changed.json()
    assert webhook["secret"] != rotated["secret"]
    assert (200, True) == (deleted.status_code, deleted.json()["deleted"])
    assert (404, "not_found") == error_code(owner.get(path))
    assert [] == owner.get("/v1/webhooks").json()["data"]


def test_a_refusal_is_tried_again_under_the_same_id(owner: Caller, receiver: Receiver) -> None:
    """503 with Retry-After: not before, and the id is the same; `redeliver` sends it at once."""
    receiver.answering = plainly(503, Retry_After="3600")
    webhook = made(owner, receiver.url)
    before = time.time()
    post(owner, f"/v1/webhooks/{webhook['id']}/test")
    delivery = until(owner, webhook["id"], lambda one: one["attempts"] == 1)
    receiver.answering = plainly(200)
    again = post(owner, f"/v1/webhooks/{webhook['id']}/deliveries/{delivery['id']}/redeliver")
    first, second = receiver.wait(2)

    assert (503, "pending") == (delivery["status"], delivery["state"])
    assert before + 3599 <= delivery["next_attempt_at"] <= time.time() + 3601
    assert 202 == again.status_code
    assert first.id == second.id
    assert "delivered" == until(owner, webhook["id"], lambda one: one["state"] != "pending")["state"]


def test_a_redelivery_asked_for_during_an_attempt_is_sent(owner: Caller, receiver: Receiver) -> None:
    """The outcome of the attempt in progress is not taken for that of the new one."""
    may_answer = threading.Event()

    def slowly(handler: BaseHTTPRequestHandler, message: Message) -> None:
        may_answer.wait(30)
        plainly(204)(handler, message)

    receiver.answering = slowly
    webhook = made(owner, receiver.url)
    delivery = post(owner, f"/v1/webhooks/{webhook['id']}/test").json()
    receiver.wait(1)
    again = post(owner, f"/v1/webhooks/{webhook['id']}/deliveries/{delivery['id']}/redeliver")
    may_answer.set()
    first, second = receiver.wait(2)

    assert 202 == again.status_code
    assert first.id == second.id


def test_gone_disables(owner: Caller, receiver: Receiver) -> None:
    """410: nothing more is sent, and its owner sees why; enabled again, it is sent to again."""
    receiver.answering = plainly(410)
    webhook = made(owner, receiver.url)
    path = f"/v1/webhooks/{webhook['id']}"
    post(owner, f"{path}/test")
    until(owner, webhook["id"], lambda one: one["state"] == "failed")
    shown = owner.get(path).json()
    receiver.answering = plainly(200)
    enabled = post(owner, path, {"enabled": True}, "PATCH").json()
    post(owner, f"{path}/test")
    receiver.wait(2)

    assert (False, "the server answered 410 Gone") == (shown["enabled"], shown["disabled_because"])
    assert (True, None, None) == (enabled["enabled"], enabled["disabled_because"], enabled["failing_since"])


@ON_ONE_DATABASE
def test_redirects_are_not_followed(owner: Caller, receiver: Receiver) -> None:
    """Who may be sent to is who was named."""
    other = Receiver()
    receiver.answering = plainly(307, Location=other.url)
    webhook = made(owner, receiver.url)
    post(owner, f"/v1/webhooks/{webhook['id']}/test")
    delivery = until(owner, webhook["id"], lambda one: one["attempts"] == 1)
    other.close()

    assert (307, "redirects are not followed") == (delivery["status"], delivery["error"])
    assert [] == other.messages


@ON_ONE_DATABASE
def test_what_is_wrong_is_named(owner: Caller) -> None:
    """Every problem at once, and nothing is made."""
    wrong: list[tuple[Any, list[tuple[str, str]]]] = [
        ({}, [("events", "required"), ("url", "required")]),
        ({"url": "https://a.example/", "events": []}, [("events", "empty")]),
        ({"url": 7, "events": ["job.done"]}, [("events[0]", "not_allowed"), ("url", "wrong_type")]),
        ({"url": "https://a.example/", "events": ["job.failed"] * 2}, [("events", "not_allowed")]),
        (
            {"url": "https://a.example/", "events": ["job.failed"], "secret": "x"},
            [("secret", "unknown_name")],
        ),
    ]
    for value, expected in wrong:
        assert expected == faults(post(owner, "/v1/webhooks", value))
    for url in (
        *("example.com", "ftp://a.example/", "https:///x", "http://[::1", "https://a b/", "https://ä.de/"),
        *("https://u:p@a.example/", "https://a.example/#x", "https://a.example:0/", "https://a.example\\@b/"),
    ):
        answer = post(owner, "/v1/webhooks", {"url": url, "events": ["job.failed"]})
        assert [("url", "not_allowed")] == faults(answer)
    assert [] == owner.get("/v1/webhooks").json()["data"]


def test_an_account_has_no_more_than_it_may(owner: Caller) -> None:
    """The twenty-first is refused."""
    for _ in range(20):
        made(owner, "https://a.example/")
    answer = post(owner, "/v1/webhooks", {"url": "https://a.example/", "events": ENDED})

    assert [("url", "too_many_webhooks")] == faults(answer)


def test_others_and_restricted_keys_see_what_is_theirs(paid: Operator, owner: Caller) -> None:
    """A foreign webhook is one that is not there; a restricted key makes and sees those of its models."""
    webhook = made(owner, "https://a.example/")
    restricted = paid.key(owner.account_id, models=["fake/image"])
    own = made(restricted, "https://b.example/")
    for caller in (paid.caller(), restricted):
        for method, rest in (
            *(("GET", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/rotate"), ("GET", "/deliveries")),
        ):
            answer = caller.request(method, f"/v1/webhooks/{webhook['id']}{rest}")
            assert (404, "not_found") == error_code(answer)

    assert [own["id"]] == [one["id"] for one in restricted.get("/v1/webhooks").json()["data"]]
    assert 2 == len(owner.get("/v1/webhooks").json()["data"])
