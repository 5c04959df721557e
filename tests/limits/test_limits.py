"""Every limit: what it lets through, how it refuses, and that the refusal is counted under its name.

The service of these tests has the settings of SMALL in conftest.
"""

import hashlib
import re
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2
import pytest

from limits.conftest import SMALL, Refusals
from servers.callers import Caller, Operator, error_code, job
from servers.processes import until
from servers.recordings import recording
from servers.speed import HANG_S
from tenuto import config
from tenuto.features.telemetry.api_metrics import LIMITS

Limited = tuple[Operator, Refusals]
DOCUMENT = Path(__file__).parents[2] / "docs" / "operations" / "limits.md"


def counted(refusals: Refusals, limit: str, refuse: Callable[[], None]) -> int:
    """By how much the limit's counter rises; no other one does, but for bodies that a busy machine delays."""
    before = refusals.all()
    refuse()
    after = refusals.all()
    risen = {name: after[name] - before[name] for name in after if after[name] != before[name]}

    assert set(risen) <= {limit, "slow_body"}
    return risen.get(limit, 0)


def test_every_limit_is_counted_from_the_start(small: Limited) -> None:
    """/metrics has each of them before anything was refused; the document has a line for each."""
    named = re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    settings = re.findall(r"`(\w+)`", "".join(line.split("|")[2] for line in lines_of_document()))

    assert set(LIMITS) == set(small[1].all())
    assert set(LIMITS) == set(named)
    assert set(settings) <= set(config.declarations())
    assert {name.removeprefix("TENUTO_").lower() for name in SMALL} <= set(settings)


def test_requests_per_second(small: Limited) -> None:
    """Forty at once, then twenty a second; 429, Retry-After 1, the message says how many (R212)."""
    caller = small[0].caller()
    answers: list[httpx2.Response] = []
    refused: list[httpx2.Response] = []

    def ask_until_refused() -> None:
        """How many that takes depends on how fast the machine asks."""
        while len(refused) < 5 and len(answers) < 400:
            answers.append(caller.get("/v1/account/balance"))
            if answers[-1].status_code != 200:
                refused.append(answers[-1])

    risen = counted(small[1], "requests_per_second", ask_until_refused)

    assert {200} == {answer.status_code for answer in answers[:40]}
    assert (5, 5) == (risen, len(refused))
    assert {((429, "rate_limited"), "1")} == {
        (error_code(answer), answer.headers["retry-after"]) for answer in refused
    }
    assert "more than 20 requests a second" in refused[0].text


def assert_refused(
    refusals: Refusals, limit: str, retry_after: str, ask: Callable[[], httpx2.Response]
) -> httpx2.Response:
    """429, counted once under its name; the answer."""
    answers: list[httpx2.Response] = []
    risen = counted(refusals, limit, lambda: answers.append(ask()))

    assert (1, (429, "rate_limited")) == (risen, error_code(answers[0]))
    assert retry_after == answers[0].headers["retry-after"]
    return answers[0]


def test_queued_jobs(small: Limited) -> None:
    """One waits; the next is refused, binds no key and holds nothing (R212)."""
    caller = small[0].caller()
    running = caller.submit("[fake:sleep=20] x")
    wait_for(small[0], running, "running")
    waiting = caller.submit("waits")
    refused = assert_refused(small[1], "queued_jobs", "10", lambda: caller.post_job(job(), key="again"))
    caller.cancel(waiting)
    accepted = caller.post_job(job(), key="again")
    caller.cancel(running)

    assert "1 jobs queued, which is its limit" in refused.text
    assert 202 == accepted.status_code


def test_what_is_uploaded_and_stored(small: Limited) -> None:
    """One upload is under way; what does not fit any more; so many files, however small, until one is erased
    (P14, R212)."""
    second, third = (small[0].caller() for _ in range(2))
    assert_refused(small[1], "uploads", "1", lambda: upload_beside_another(small[0]))
    assert_refused(small[1], "stored_mib", "120", lambda: upload(second, recording(words=150)))
    stored = [upload(third) for _ in range(3)]
    assert_refused(small[1], "stored_files", "120", lambda: upload(third))
    third.request("DELETE", f"/v1/artifacts/{stored[0].json()['artifact']['id']}")

    assert [201] * 4 == [answer.status_code for answer in (*stored, upload(third))]


def test_queued_chats(small: Limited) -> None:
    """Four are answered, one waits, the sixth is refused with 429 and Retry-After 5 (R212)."""
    caller = small[0].caller()
    answers: list[httpx2.Response] = []
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(begun(caller, "/v1/chat/completions", chat("[fake:sleep=60] x")))
        latest = time.monotonic() + HANG_S
        while not answers or answers[-1].status_code != 429:
            assert time.monotonic() < latest
            # If it is queued before one of the five, it takes its place: it times out and is sent again.
            with suppress(httpx2.ReadTimeout):
                answers.append(
                    caller.http.post(
                        "/v1/chat/completions",
                        headers={"Authorization": f"Bearer {caller.key}", **JSON},
                        content=chat("[fake:sleep=60] x"),
                        timeout=2.0,
                    )
                )

    assert (429, "rate_limited") == error_code(answers[-1])
    assert "5" == answers[-1].headers["retry-after"]
    assert small[1].all()["queued_chats"] >= 1


@pytest.mark.parametrize(("path", "way"), [("/v1/jobs", "declared"), ("/v1/chat/completions", "in chunks")])
def test_body(small: Limited, path: str, way: str) -> None:
    """A byte over the setting: 413 with the number, by its length at once or when it has come."""
    caller = small[0].caller()
    content = b" " * (2 * 1024 + 1)
    own = {"Authorization": f"Bearer {caller.key}", "Idempotency-Key": "k", **JSON}
    answers: list[httpx2.Response] = []
    sent = content if way == "declared" else iter([content])
    risen = counted(
        small[1],
        "body",
        lambda: answers.append(httpx2.post(small[0].service.url + path, headers=own, content=sent)),
    )

    assert (1, (413, "payload_too_large")) == (risen, error_code(answers[0]))
    assert "at most 2048 bytes" in answers[0].text


def test_head(small: Limited) -> None:
    """Too large: 431."""
    head = b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 40_000 + b"\r\n\r\n"
    said: list[bytes] = []
    risen = counted(small[1], "head", lambda: said.append(answer_to(small[0], head)))

    assert (1, b"HTTP/1.1 431") == (risen, said[0][:12])


def test_connections(small: Limited) -> None:
    """Beyond so many open ones the next is told 503 and closed; when they have gone there is room."""
    operator, refusals = small
    told: list[bytes] = []

    def crowd() -> None:
        with ExitStack() as stack:
            lines = crowd_from("127.0.0.2", "127.0.0.3", stack, operator)
            lines[-1].settimeout(5)
            told.append(lines[-1].recv(4096))

    risen = counted(refusals, "connections", crowd)

    assert risen >= 5
    assert told[0].startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: " in told[0].lower()
    until(lambda: answer_to(operator, LIVE)[:12] == b"HTTP/1.1 200", HANG_S, "there is room")


def test_connections_per_address(small: Limited) -> None:
    """One address may have twenty-five of the thirty; another one is served at once (P14)."""
    operator, refusals = small
    told: list[bytes] = []

    def crowd() -> None:
        with ExitStack() as stack:
            lines = connect_from("127.0.0.4", 28, stack, operator)
            lines[-1].settimeout(5)
            told.append(lines[-1].recv(4096))
            told.append(answer_to(operator, LIVE))

    risen = counted(refusals, "connections_per_address", crowd)

    assert risen == 3
    assert [b"HTTP/1.1 503 ", b"HTTP/1.1 200 "] == [answer[:13] for answer in told]
    assert b"from this address" in told[0]


def test_requests_at_once(small: Limited) -> None:
    """Twelve under way, be they waiting ones; the next is told 429, and another account is served (P14)."""
    operator, refusals = small
    caller, other = operator.caller(), operator.caller()
    job_id = caller.block_lane()
    told: list[bytes] = []

    def crowd() -> None:
        with ExitStack() as stack:
            for _ in range(int(SMALL["TENUTO_REQUESTS_AT_ONCE"])):
                stack.enter_context(_raw(caller, f"GET /v1/jobs/{job_id}?wait=20", "", b""))
            latest = time.monotonic() + HANG_S
            while not told or b" 429 " not in told[-1]:
                assert time.monotonic() < latest
                line = stack.enter_context(_raw(caller, "GET /v1/account/balance", "", b""))
                told.append(line.recv(4096))
                time.sleep(0.05)
            assert 200 == other.get("/v1/account/balance").status_code

    risen = counted(refusals, "requests_at_once", crowd)
    caller.cancel(job_id)

    assert 1 == risen
    assert b"retry-after: 1\r\n" in told[-1].lower()


def test_probes_are_answered_however_full_it_is(small: Limited) -> None:
    """At the port of the metrics, while the API's own port refuses strangers: nothing is restarted (P14)."""
    operator, refusals = small
    with ExitStack() as stack:
        lines = crowd_from("127.0.0.2", "127.0.0.3", stack, operator)
        lines[-1].settimeout(HANG_S)
        refused = lines[-1].recv(4096)
        probed = [httpx2.get(refusals.address + path, timeout=120) for path in ("/livez", "/readyz")]

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert [200, 200] == [answer.status_code for answer in probed]
    assert 404 == httpx2.get(refusals.address + "/v1/jobs", timeout=120).status_code


def test_slow_head(small: Limited) -> None:
    """A head that has not come to its end in time: 408."""
    said: list[bytes] = []
    risen = counted(
        small[1], "slow_head", lambda: said.append(answer_to(small[0], b"GET / HTTP/1.1\r\nHost: x\r\nX: "))
    )

    assert (1, b"HTTP/1.1 408") == (risen, said[0][:12])


def test_slow_body(small: Limited) -> None:
    """A body that has not come in time: 408, nothing stored."""
    caller = small[0].caller()
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.key}\r\nIdempotency-Key: k\r\n"
    )
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    said: list[bytes] = []
    risen = counted(small[1], "slow_body", lambda: said.append(answer_to(small[0], head.encode())))

    assert (1, b"HTTP/1.1 408") == (risen, said[0][:12])
    assert [] == caller.newest()


def test_slow_reader(small: Limited) -> None:
    """Who does not read its answer is cut off, and nothing more is read for it."""
    operator, refusals = small
    caller = operator.caller()
    job_id = caller.submit("x" * 1500)
    wait_for(operator, job_id, "succeeded")
    [artifact] = caller.read(job_id)["artifacts"]
    before, given_up = refusals.all()["slow_reader"], refusals.given_up()
    head = f"GET /v1/artifacts/{artifact['id']}/content HTTP/1.1\r\nHost: x\r\n"
    head += f"Authorization: Bearer {caller.key}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(10):
            line = stack.enter_context(socket.socket())
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", operator.service.port))
            line.sendall(head.encode())
        until(lambda: refusals.all()["slow_reader"] - before >= 10, HANG_S, "all are cut off", look_s=0.1)
    until(lambda: refusals.given_up() - given_up >= 10, HANG_S, "all are counted", look_s=0.1)

    assert artifact["size_bytes"] > 4 << 20
    assert 10 == refusals.given_up() - given_up


LIVE = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
JSON = {"Content-Type": "application/json"}


def connect_from(address: str, count: int, stack: ExitStack, operator: Operator) -> list[socket.socket]:
    """Open connections that come from an address of this machine."""
    there = ("127.0.0.1", operator.service.port)
    return [
        stack.enter_context(socket.create_connection(there, timeout=120, source_address=(address, 0)))
        for _ in range(count)
    ]


def crowd_from(first: str, second: str, stack: ExitStack, operator: Operator) -> list[socket.socket]:
    """Five more than there may be, from two addresses that keep to their share: the second has more than the
    first, which gives it no place."""
    half = int(SMALL["TENUTO_CONNECTIONS"]) // 2
    return connect_from(first, half, stack, operator) + connect_from(second, half + 5, stack, operator)


def wait_for(operator: Operator, job_id: str, state: str) -> None:
    """Without a request, of which there may be few."""
    sql = "select state from job where id = :id"
    until(lambda: operator.row(sql, id=job_id)["state"] == state, HANG_S, f"{job_id} is {state}", look_s=0.05)


def lines_of_document() -> list[str]:
    text = DOCUMENT.read_text("utf-8")
    return [line for line in text.splitlines() if line.startswith("| `")]


def chat(text: str) -> bytes:
    return b'{"model": "fake/chat", "messages": [{"role": "user", "content": "%b"}]}' % text.encode()


def upload(caller: Caller, content: bytes | None = None) -> httpx2.Response:
    content = content or recording()
    headers = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest()}
    return caller.request("POST", "/v1/input-artifacts", headers=headers, content=content)


def upload_beside_another(operator: Operator) -> httpx2.Response:
    """The first answer to an upload that came while another was under way, which has a second."""
    while True:
        caller = operator.caller()
        with begun_upload(caller):
            answer = upload(caller)
        if answer.status_code != 201:
            return answer


def begun_upload(caller: Caller) -> socket.socket:
    """An upload of which the head has come and been let through."""
    head = (
        "X-Service-Content-SHA256: " + "0" * 64 + "\r\nContent-Type: audio/flac\r\nContent-Length: 100000\r\n"
    )
    line = _raw(caller, "POST /v1/input-artifacts", head + "Expect: 100-continue\r\n", b"")
    assert b"HTTP/1.1 100" in line.recv(4096)
    return line


def begun(caller: Caller, path: str, content: bytes) -> socket.socket:
    """A request that was sent, its answer not read."""
    head = f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    return _raw(caller, f"POST {path}", head, content)


def _raw(caller: Caller, what: str, head: str, content: bytes) -> socket.socket:
    port = caller.http.base_url.port
    assert port is not None
    line = socket.create_connection(("127.0.0.1", port), timeout=120)
    start = f"{what} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.key}\r\n"
    line.sendall((start + head + "\r\n").encode() + content)
    return line


def answer_to(operator: Operator, request: bytes) -> bytes:
    """All that comes back until the connection ends."""
    with socket.create_connection(("127.0.0.1", operator.service.port), timeout=120) as line:
        line.sendall(request)
        answer = b""
        while piece := line.recv(65536):
            answer += piece
        return answer
