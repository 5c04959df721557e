"""What webhooks add to a job's transitions, from its acceptance to its end: switched off, allowed, and sent.

Two services on the same kind of database take the same jobs in turns, a round each, and the processor time of
all their processes, PostgreSQL's connections among them, is compared round by round. The receivers of
messages are in this process, which does not count. What is sent also costs: connections, signatures and two
records a message, in the worker that sends.
"""

import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

from lab.bench.client import Connection, flood
from lab.bench.references import cpu_s
from lab.bench.report import Row, below
from lab.bench.stage import Stage, clients, stage

from servers.postgres import PostgresServer
from servers.receiver import Receiver
from tenuto.db.database import Transaction

IDLE_ROUNDS = 20
"""Pairs of rounds differ by some 10 % each; the median of as many by 1 or 2 %."""
SENT_ROUNDS = 5
WAITING = 2_000
JOBS = 80
CLIENTS = 8
SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer.request_queue_size = 128
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""
ADDED_PERCENT = 5.0


def measure(postgres: PostgresServer | None) -> list[Row]:
    """First nobody has a webhook where they are allowed; then every account has one."""
    with ExitStack() as stack:
        without = stack.enter_context(stage(postgres, TENUTO_WEBHOOKS="off"))
        allowed = stack.enter_context(stage(postgres, TENUTO_WEBHOOKS="any"))
        idle = _pairs(without, allowed, IDLE_ROUNDS)
        receiver = Receiver()
        stack.callback(receiver.close)
        for key in allowed.keys:
            _add(allowed, key, receiver.url)
        sent = _pairs(without, allowed, SENT_ROUNDS)
        messages = len(receiver.messages)
        rate = _rate(allowed)
    ratios = sorted(with_s / without_s for without_s, with_s in idle)
    quarter = len(ratios) // 4
    base_ms, message_ms = (
        statistics.median(value) * 1000
        for value in ([one for one, _ in sent], [with_s - without_s for without_s, with_s in sent])
    )
    name = f"{without.name}: a job with webhooks allowed, added processor time of all processes"
    how = (
        f"median of {IDLE_ROUNDS} pairs of rounds of {JOBS} jobs, beside webhooks = off in turns; half of "
        f"the pairs from {(ratios[quarter] - 1) * 100:.1f} to {(ratios[-1 - quarter] - 1) * 100:.1f} %"
    )
    return [
        below(name, (statistics.median(ratios) - 1) * 100, ADDED_PERCENT, "%", how, digits=1),
        Row(
            f"{without.name}: a message to a webhook, processor time of all processes",
            f"{message_ms:.1f} ms",
            reason=f"beside {base_ms:.1f} ms for its job; {messages} messages, {len(allowed.keys)} webhooks",
        ),
        Row(
            f"{without.name}: messages to one webhook",
            f"{rate:.0f} a second",
            reason=f"while {WAITING} wait; to a server that answers at once, until their outcome is recorded",
        ),
    ]


def _rate(running: Stage) -> float:
    """How many waiting messages of one webhook are sent a second; its server is a process of its own."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        _add(running, running.keys[0], f"http://127.0.0.1:{port}/")
        [webhook] = running.query("select max(id) as id from webhook")
        now_ms = int(time.time() * 1000)

        def wait(tx: Transaction) -> None:
            for number in range(WAITING):
                tx.do(
                    """insert into webhook_delivery
                           (id, webhook_id, message_id, type, body, state, next_at, created_at)
                       values (:id, :webhook_id, :id, 'job.succeeded', '{}', 'pending', :now, :now)""",
                    id=f"delivery_{number:026}",
                    webhook_id=webhook["id"],
                    now=now_ms,
                )

        running.database.write(wait)
        took_s = _took_s(running, WAITING // 10, WAITING)
        server.kill()
    return WAITING * 0.9 / took_s


def _took_s(running: Stage, first: int, last: int) -> float:
    """Seconds between the record of one of the messages in `_rate` and that of a later one."""
    began = 0.0
    count = "select count(*) as n from webhook_delivery where state = 'delivered' and body = '{}'"
    while (done := running.query(count)[0]["n"]) < last:
        began = began or (time.monotonic() if done >= first else 0.0)
        time.sleep(0.01)
    return time.monotonic() - began


def _pairs(without: Stage, allowed: Stage, rounds: int) -> list[tuple[float, float]]:
    """Seconds of processor time a job, of both in turns, either first; the first pair warms up."""
    pairs = []
    for number in range(1 + rounds):
        order = [without, allowed] if number % 2 else [allowed, without]
        took_s = {running.port: _round(running) for running in order}
        pairs.append((took_s[without.port], took_s[allowed.port]))
    return pairs[1:]


def _round(running: Stage) -> float:
    """Accept, run and settle jobs, and send what there is to send: seconds of processor time a job."""
    before = _cpu_s(running)
    tally = flood(running.port, clients(running.keys, CLIENTS), lambda answers: answers <= JOBS - CLIENTS)
    assert not tally.other, tally.other
    running.wait_for(lambda: _is_quiet(running), timeout_s=120)
    after = _cpu_s(running)
    return sum(after[pid] - before.get(pid, 0.0) for pid in after) / tally.new


def _cpu_s(running: Stage) -> dict[int, float]:
    """Processor seconds so far of the service's processes, and of PostgreSQL's for its connections."""
    pids = [process.pid for process in running.processes()]
    if running.name == "PostgreSQL":
        backends = running.query(
            """select pid from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()"""
        )
        pids += [row["pid"] for row in backends]
    return {pid: cpu_s(pid) for pid in pids}


def _is_quiet(running: Stage) -> bool:
    """Whether every job has ended, and every message of it was taken."""
    time.sleep(0.05)
    [ended] = running.query("select count(*) as n from job where state = 'succeeded'")
    [jobs] = running.query("select count(*) as n from job")
    [waiting] = running.query("select count(*) as n from webhook_delivery where state = 'pending'")
    # Those of the round are there once the sender has read the last event.
    [behind] = running.query(
        """select count(*) as n from webhook_sender s where exists (select 1 from webhook) and s.position <
           (select max(position) from event)"""
    )
    return bool(ended["n"] == jobs["n"] and not waiting["n"] and not behind["n"])


def _add(running: Stage, key: str, url: str) -> None:
    body = json.dumps({"url": url, "events": ["job.succeeded"]})
    connection = Connection(running.port)
    answer = connection.ask(
        f"POST /v1/webhooks HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    connection.close()
    assert answer.status == 201, answer
