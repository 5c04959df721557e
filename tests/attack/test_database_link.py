"""The link between the service and PostgreSQL breaks in every way: nothing is lost, nothing is doubled."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from servers import checker
from servers.clients import Client
from servers.processes import until
from servers.proxy import Proxy, Towards
from servers.service import FINAL, RunningService
from servers.speed import HANG_S, assert_within

CREDIT = 100
CLIENTS = 3
TEXTS = [f"Sentence number {number}." for number in range(6)] + ["[fake:sleep=0.05] A thought."]
FINISH_S = 40.0
QUICK_S = 1.0
UNKNOWN_COMMITS = 6
COMMITTED = b"COMMIT\0"
"""What the server says to a commit that was done."""
COMMITTING = b"\0commit\0"
"""What it is sent on a connection's first commit; the later ones name the statement."""


@pytest.fixture
def running(make_service: Callable[..., RunningService], linked_url: str) -> RunningService:
    """A service whose every word with its database goes through the proxy."""
    quick = {"TENUTO_HEARTBEAT_S": "0.5", "TENUTO_SILENCE_S": "2"}
    service = make_service(None, linked_url, TENUTO_SPEECH_SLOTS="2", **quick)
    service.start()
    return service


def test_a_link_that_breaks_under_load_loses_nothing(running: RunningService, link: Proxy) -> None:
    """Cut, stalled, refused, slowed and cut at commits while clients submit: one job a key, one charge each.

    Nothing but 503 is answered meanwhile, every 202 ends succeeded, no state goes back, and nothing waits
    for an operator because of the outage alone (P1, P2, P3, P5, P8).
    """
    draw = random.Random(4)
    keys = [running.make_key(f"account {n}", credit=str(CREDIT)) for n in range(CLIENTS)]
    clients = [Client(running, key, TEXTS, draw.getrandbits(32)) for key in keys]
    for client in clients:
        client.start()
    faults: list[Callable[[], Any]] = [
        link.cut,
        link.stall,
        lambda: link.stall(Towards.CLIENT),
        lambda: [step() for step in (link.refuse, link.cut)],
        lambda: link.delay(0.03),
        *([lambda: link.cut_at(COMMITTED, Towards.CLIENT, nth=3)] * 3),
        *([lambda: _lose_commit(link)] * 2),
    ]
    draw.shuffle(faults)
    for fault in faults:
        fault()
        time.sleep(draw.uniform(0.2, 0.5))
        link.pass_on()
        time.sleep(draw.uniform(0.1, 0.2))
    for client in clients:
        client.finish()
    for client in clients:
        client.join(FINISH_S)

    assert [] == [fault for client in clients for fault in client.faults]
    assert [] == [work for client in clients for work in client.unfinished()]
    assert link.cuts() > 4
    checker.check_everything(
        running, jobs=sum(len(client.works) for client in clients), credit_micros=CREDIT * 1_000_000
    )


def test_an_unknown_commit_is_looked_up_before_the_answer(running: RunningService, link: Proxy) -> None:
    """COMMIT is done and its answer lost: the caller has the 202 of its job all the same; one job, one hold.

    The same where the COMMIT itself is lost: the job is made then, and once (P1, P2, P3).
    """
    running.key = running.make_key(credit=str(CREDIT))
    answers: list[tuple[int, str]] = []
    ways = [(COMMITTED, Towards.CLIENT), (COMMITTING, Towards.SERVER)] * (UNKNOWN_COMMITS // 2)
    with running.client() as http:
        for number, (mark, way) in enumerate(ways):
            if way is Towards.SERVER:
                link.cut()
            cuts = link.cuts()
            # Whoever commits next, this submission or a worker's beat: it is not told.
            link.cut_at(mark, way)
            answers += [_submit(http, f"key {number}") for _ in range(2)]
            assert link.wait_cuts(cuts + 1, 5)
            link.pass_on()
        ended = [_ended(http, job_id)["state"] for _, job_id in answers]

    assert [202] * 2 * UNKNOWN_COMMITS == [status for status, _ in answers]
    assert UNKNOWN_COMMITS == len({job_id for _, job_id in answers})
    assert {"succeeded"} == set(ended)
    checker.check_everything(running, jobs=UNKNOWN_COMMITS, credit_micros=CREDIT * 1_000_000)


@pytest.mark.measured
def test_without_its_database_the_service_says_so_at_once(running: RunningService, link: Proxy) -> None:
    """A database that is away is a 503 with Retry-After within a second, never another 5xx; alive it stays.

    When the link is back the same requests are answered, and the job that was accepted before runs (P1, P19).
    """
    running.key = running.make_key(credit=str(CREDIT))
    accepted = running.submit("[fake:sleep=0.5] Accepted before.")
    link.refuse()
    link.cut()
    with running.client() as http:
        http.get("/v1/jobs")  # whoever still held a connection has seen it go
        asked = [
            ("GET", "/v1/jobs"),
            ("GET", f"/v1/jobs/{accepted}"),
            ("GET", "/v1/models"),
            ("GET", "/readyz"),
        ]
        answers, took_s = [], []
        for method, path in asked:
            began = time.monotonic()
            answers.append(http.request(method, path))
            took_s.append(time.monotonic() - began)
        refused = http.post("/v1/jobs", json=_body(), headers={"Idempotency-Key": "later"})
        alive = http.get("/livez")
        link.pass_on()
        again = _ended(http, accepted)
        later = http.post("/v1/jobs", json=_body(), headers={"Idempotency-Key": "later"})

    assert [503] * 5 == [answer.status_code for answer in (*answers, refused)]
    assert all(1 <= int(answer.headers["retry-after"]) <= 120 for answer in (*answers, refused))
    assert_within(QUICK_S, *took_s)
    assert (200, "succeeded", 202) == (alive.status_code, again["state"], later.status_code)
    assert "idempotent-replayed" not in later.headers


def test_a_request_that_waits_for_its_sound_outlasts_an_outage(running: RunningService, link: Proxy) -> None:
    """The database is away for two seconds while the sound is made; the client does not notice (P6)."""
    running.key = running.make_key(credit=str(CREDIT))
    sound = {"model": "fake/speech", "voice": "alloy", "input": "[fake:sleep=2] A thought.", "stream": True}
    with running.client() as http, running.client() as watch, ThreadPoolExecutor(1) as others:
        asked = others.submit(http.post, "/v1/audio/speech", json=sound)
        until(lambda: bool(watch.get("/v1/jobs?state=running").json()["data"]), HANG_S, "a job that runs")
        link.refuse()
        link.cut()
        time.sleep(2)
        link.pass_on()
        answer = asked.result(HANG_S)
        ended = _ended(http, answer.headers["x-service-job"])

    assert (200, "succeeded") == (answer.status_code, ended["state"])


def _lose_commit(link: Proxy) -> None:
    link.cut()
    link.cut_at(COMMITTING, Towards.SERVER)


def _submit(http: httpx2.Client, key: str) -> tuple[int, str]:
    answer = http.post("/v1/jobs", json=_body(), headers={"Idempotency-Key": key})
    return answer.status_code, str(answer.json().get("id"))


def _ended(http: httpx2.Client, job_id: str) -> Any:
    """The operation when it has ended; a 503 is asked again."""
    until = time.monotonic() + FINISH_S
    while True:
        answer = http.get(f"/v1/jobs/{job_id}")
        if answer.status_code == 200 and answer.json()["state"] in FINAL:
            return answer.json()
        assert answer.status_code in (200, 503)
        assert time.monotonic() < until
        time.sleep(0.05)


def _body() -> dict[str, Any]:
    return {"model": "fake/speech", "parameters": {"text": "Hold."}}
