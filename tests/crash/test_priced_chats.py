"""A priced chat whose service is killed: nothing stays held, nothing is charged that was not answered."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2
import pytest

from crash.conftest import MakeService
from servers import checker
from servers.processes import Supervisor, until
from servers.shots import Shots
from servers.speed import HANG_S
from servers.upstream import THOUGHTS, UpstreamServer

CONFIG = """
[models."there/priced"]
upstream = "{url}"
input_price = "2"
output_price = "8"
"""
CHARGE_MICROS = 26
RELEASED_S = 90.0
Ask = Callable[[httpx2.Client, str], httpx2.Response]


def test_a_kill_around_the_charge_leaves_no_hold(make_service: MakeService, tmp_path: Path) -> None:
    """Before the upstream is asked, before the charge is written, before the answer is sent: charged at most
    once each, and only once it was durable. What the dead process held is released: at the next start where
    that is the only one there is, else by the workers. Then its key is free (P1, P3, P4)."""
    upstream = UpstreamServer()
    shots = Shots(tmp_path / "shots")
    running = make_service(**shots.variables)
    if running.database_url is not None:
        running.variables = {**running.variables, "TENUTO_CHAT_TIMEOUT_S": "3"}
    with (tmp_path / "tenuto.toml").open("a") as config:
        config.write(CONFIG.format(url=upstream.url))
    running.start()
    running.key = running.make_key(credit="1")
    supervisor = Supervisor(running)
    question = {"model": "there/priced", "messages": [{"role": "user", "content": "Hold the note."}]}
    asked, answers = [], []

    def ask(client: httpx2.Client, key: str) -> httpx2.Response:
        return client.post("/v1/chat/completions", json=question, headers={"Idempotency-Key": key})

    try:
        with running.client() as client:
            for place in ("call.held", "call.answered", "call.settled"):
                shots.arm(place, "1:kill")
                with pytest.raises(httpx2.TransportError):
                    ask(client, place)
                asked.append(len(upstream.seen.bodies))
                until(lambda: _is_ready(client), HANG_S, "the API is back")
                retries = [ask(client, place)]
                if running.database_url is not None:
                    until(partial(_is_final, ask, client, place, retries), RELEASED_S, "the key is free")
                answers.append(retries[-1].status_code)
        database = checker.open_records(running)
        states = checker.rows(database, "select state from model_call order by id")
        accounts = checker.rows(database, "select available_micros, held_micros from account")
        database.close()
    finally:
        supervisor.stop()
        upstream.close()

    assert [0, 2, 4] == asked
    assert [200, 200, 409] == answers
    assert ["void", "settled", "void", "settled", "settled"] == [row["state"] for row in states]
    assert {"available_micros": 1_000_000 - 3 * CHARGE_MICROS, "held_micros": 0} in accounts
    checker.check_audit(running)


def test_a_stop_reads_on_for_who_has_left(make_service: MakeService, tmp_path: Path) -> None:
    """The caller hangs up at the last word, and the service is asked to stop: it first reads what the
    upstream counts, and charges it (P3)."""
    upstream = UpstreamServer()
    running = make_service()
    with (tmp_path / "tenuto.toml").open("a") as config:
        config.write(CONFIG.format(url=upstream.url))
    running.start()
    running.key = running.make_key(credit="1")
    question = {"model": "there/priced", "messages": [{"role": "user", "content": "[up:think]"}]}
    try:
        with (
            running.client() as client,
            client.stream("POST", "/v1/chat/completions", json=question | {"stream": True}) as answer,
        ):
            assert next(line for line in answer.iter_lines() if " two" in line)
        with ThreadPoolExecutor() as beside:
            stopped = beside.submit(running.stop)
            until(lambda: not _listens(running.port), 30, "it stops")
            upstream.seen.gate.set()
            code = stopped.result()
        database = checker.open_records(running)
        accounts = checker.rows(database, "select available_micros, held_micros from account")
        database.close()
    finally:
        upstream.close()

    assert 0 == code
    assert {"available_micros": 1_000_000 - 5 * 2 - (2 + THOUGHTS) * 8, "held_micros": 0} in accounts


def _is_final(ask: Ask, client: httpx2.Client, key: str, answers: list[httpx2.Response]) -> bool:
    if answers[-1].headers.get("x-should-retry") == "true":
        answers.append(ask(client, key))
    return answers[-1].headers.get("x-should-retry") != "true"


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _is_ready(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False
