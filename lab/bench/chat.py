"""The cost of a chat through the service, compared with calling the same upstream directly, in turns.

The upstream is a raw ASGI app that gives one answer at once. Usage is recorded as always. Where the variable
TENUTO_BENCH_LITELLM names a `litellm` command, its proxy stands before the same upstream and is asked too.
"""

import itertools
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.bench.client import Connection, flood, for_seconds, get
from lab.bench.references import raw_app
from lab.bench.report import Row, above, below, p50_ms, quantile
from lab.bench.stage import Stage, stage

from servers.postgres import PostgresServer

MODEL = "bench/chat"
PAIRS = 600
WARM_UP = 100
ROUNDS = 3
ROUND_S = 1.5
CLIENTS = 32
P50_ADDED_MS = 1.0
P99_ADDED_MS = 5.0
FASTER_THAN_LITELLM = 20
LITELLM_READY_S = 240.0
LITELLM_KEPT_S = 75
"""Longer than by default, 5 s, so that a machine with much to do does not cut its connections."""
LITELLM_KEY = "sk-bench-0123456789abcdef0123456789abcdef"

_ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": MODEL,
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "A held note."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15},
}
_ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "What is a tenuto, in three words?"}]}
_CONFIGURATION = """
[models."{model}"]
upstream = "http://127.0.0.1:{port}/v1"
"""
_LITELLM = """
model_list:
  - model_name: {model}
    litellm_params: {{ model: openai/x, api_base: "http://127.0.0.1:{port}/v1", api_key: none }}
"""


def measure(postgres: PostgresServer | None) -> list[Row]:
    """Latency of one client in turns with the direct call, then the rate of 32 clients."""
    with (
        tempfile.TemporaryDirectory(prefix="tenuto-bench-") as name,
        raw_app(upstream_answer(), Path(name)) as (port, _),
    ):
        file = Path(name, "tenuto.toml")
        file.write_text(configuration(port))
        with stage(postgres, TENUTO_CONFIG=str(file)) as running:
            rows = _latency(running, port)
            rate = _rate(running.port, [request(key) for key in running.keys])
            rows.append(_recorded(running, rate))
            litellm = os.environ.get("TENUTO_BENCH_LITELLM")
            if litellm and postgres is None:
                rows.append(_beside_litellm(litellm, Path(name), port, rate))
        return rows


def configuration(port: int) -> str:
    """The service's, for an upstream at this port."""
    return _CONFIGURATION.format(model=MODEL, port=port)


def upstream_answer() -> bytes:
    """What the upstream answers to everything."""
    body = json.dumps(_ANSWER).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


def request(key: str) -> bytes:
    """A chat with the upstream's model."""
    body = json.dumps(_ASKED)
    return (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


def _latency(running: Stage, port: int) -> list[Row]:
    direct, through = Connection(port), Connection(running.port)
    asked = request(running.keys[0])
    took: dict[Connection, list[float]] = {direct: [], through: []}
    for number in range(WARM_UP + PAIRS):
        # The first one finds the caches as the other left them, so they also take turns at going first.
        for connection in (direct, through) if number % 2 else (through, direct):
            began = time.perf_counter()
            answer = connection.ask(asked)
            if number >= WARM_UP:
                took[connection].append(time.perf_counter() - began)
            assert answer.status == 200, answer
    alone, ours = took[direct], took[through]
    for connection in took:
        connection.close()
    measured = f"{PAIRS} calls of one client in turns with the direct call"
    p99 = [quantile(seconds, 0.99) * 1000 for seconds in (alone, ours)]
    return [
        below(
            f"{running.name}: chat, added to a direct call, p50",
            p50_ms(ours) - p50_ms(alone),
            P50_ADDED_MS,
            "ms",
            f"{measured}: {p50_ms(ours):.2f} ms beside {p50_ms(alone):.2f} ms",
        ),
        below(
            f"{running.name}: chat, added to a direct call, p99",
            p99[1] - p99[0],
            P99_ADDED_MS,
            "ms",
            f"the same calls: {p99[1]:.2f} ms beside {p99[0]:.2f} ms",
        ),
    ]


def _rate(port: int, requests: list[bytes]) -> float:
    """Answers a second to 32 clients."""
    scripts = [itertools.repeat(requests[number % len(requests)]) for number in range(CLIENTS)]
    rates = []
    for _ in range(ROUNDS):
        tally = flood(port, scripts, for_seconds(ROUND_S))
        assert not tally.other, tally.other
        rates.append(tally.answers / tally.seconds)
    return statistics.median(rates)


def _recorded(running: Stage, rate: float) -> Row:
    """Every call that was answered is counted."""
    sql = "select cast(sum(calls) as bigint) as calls, count(*) as writes from chat_usage"
    running.wait_for(lambda: running.query(sql)[0]["calls"] is not None)
    time.sleep(1.0)
    counted = running.query(sql)[0]
    return Row(
        f"{running.name}: chats, {CLIENTS} clients",
        f"{rate:.0f} /s",
        reason=f"usage recorded: {counted['calls']} calls in {counted['writes']} rows",
    )


def _beside_litellm(command: str, folder: Path, port: int, rate: float) -> Row:
    with litellm_proxy(command, folder, port) as (theirs, _):
        their_rate = _rate(theirs, [request(LITELLM_KEY)])
    return above(
        f"chats, {CLIENTS} clients, beside LiteLLM's proxy",
        rate / their_rate,
        FASTER_THAN_LITELLM,
        "× LiteLLM",
        f"the same upstream and clients: {rate:.0f}/s with usage recorded beside {their_rate:.0f}/s without",
        digits=1,
    )


@contextmanager
def litellm_proxy(command: str, folder: Path, port: int) -> Iterator[tuple[int, int]]:
    """LiteLLM's proxy with one worker, its telemetry off; gives its port and its process id."""
    file = folder / "litellm.yaml"
    file.write_text(_LITELLM.format(model=MODEL, port=port))
    own = port + 1 if port < 65_535 else port - 1
    options = ["--config", str(file), "--host", "127.0.0.1", "--port", str(own), "--telemetry", "False"]
    options += ["--keepalive_timeout", str(LITELLM_KEPT_S)]
    own_variables = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MASTER_KEY": LITELLM_KEY,
        "PYTHONDONTWRITEBYTECODE": "",
    }
    environment = os.environ | own_variables
    with (folder / "litellm.log").open("w") as log:
        process = subprocess.Popen([command, *options], env=environment, stdout=log, stderr=log)
    try:
        _await(own, process)
        yield own, process.pid
    finally:
        process.terminate()
        process.wait()


def _await(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + LITELLM_READY_S
    while True:
        assert process.poll() is None, "LiteLLM's proxy did not start"
        assert time.monotonic() < until, "LiteLLM's proxy is not ready"
        try:
            connection = Connection(port)
            ready = connection.ask(get("/health/liveliness", "none")).status == 200
            connection.close()
        except (ConnectionError, TimeoutError):
            ready = False
        if ready:
            return
        time.sleep(0.2)
