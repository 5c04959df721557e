"""A fleet under a mixed load and one blow after the other, and what came of it. Knows no command line."""

import hashlib
import itertools
import sys
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
from lab.cluster.blows import BLOWS, Blow, Outcome, stop_everything
from lab.faults import check
from lab.faults.clients import Client
from lab.faults.links import Link
from lab.faults.seen import Book
from lab.faults.works import Media
from lab.faults.world import PRICES

from cluster.fleet import Fleet
from servers.service import FINAL
from servers.shots import Shots
from tenuto.config import load
from tenuto.host.registry import missing_weights
from tenuto.kind import model as catalog

ACCOUNTS = ("rich", "rich", "other", "other")
CREDIT = "1000"
LEAST = 0.5
"""Of the claims that are wanted: a slow machine is no fault of the service, but too few prove nothing."""
WARM_S, PATIENCE_S, REST_S, MOST_S = 2.0, 25.0, 90.0, 300.0
REAL_PAUSE_S, LOOK_S = 2.0, 0.2
REAL = {
    "hexgrad/Kokoro-82M": {"text": "Many machines, and one service."},
    "tenuto/pictograms": {"prompt": "a green tree", "seed": 7},
}
"""What is asked of real engines, where their weights are."""


def run(folder: Path, seed: int) -> list[Outcome]:
    """All blows under load, and the promises at rest."""
    shots = Shots(folder / "shots")
    fleet = Fleet(folder, _settings(folder, shots), apis=3, workers=4, has_store=True)
    try:
        for node in (fleet.apis[-1], fleet.workers[-1]):
            # One of each runs real engines; what is written of the fake ones' prices means nothing to them.
            node.environment["TENUTO_ENGINES"] = "real"
            node.environment.pop("TENUTO_CONFIG")
        fleet.start()
        _tell(f"{len(fleet.nodes)} processes on {len(fleet.nodes) + 1} machines: {fleet.network.kind}")
        fleet.operator.key = fleet.operator.make_key("blows", credit=CREDIT)
        clients = _clients(fleet, seed)
        real = RealLoad(fleet)
        real.start()
        time.sleep(WARM_S)
        outcomes = []
        for blow in BLOWS:
            outcomes.append(_carried_out(fleet, shots, blow))
            _tell(f"{outcomes[-1].what}: {outcomes[-1].seen}")
        real.stop()
        outcomes += [real.outcome(), _at_rest(clients)]
        ends = check.outcomes(fleet.operator)
        outcomes.append(stop_everything(fleet))
        found = check.findings_of(fleet.operator, clients, [node.log_path for node in fleet.nodes])
        outcomes += [_load(clients, ends), _promises(found)]
        return outcomes
    finally:
        fleet.close()


class RealLoad(threading.Thread):
    """Asks real engines for one thing after the other; each must succeed and be what its record says."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(name="real-load", daemon=True)
        self._api = fleet.apis[-1]
        offered = catalog.models(load(self._api.environment))
        cache = load(self._api.environment).cache
        self._wanted = {name: REAL[name] for name in REAL if not missing_weights(offered[name].entry, cache)}
        self._lacking = sorted(set(REAL) - set(self._wanted))
        self._link = Link(self._api.url, fleet.operator.make_key("real", credit=CREDIT))
        self._ended: Counter[str] = Counter()
        self._faults: list[str] = []
        self._closing = threading.Event()

    def run(self) -> None:
        with self._link:
            for model in itertools.cycle(self._wanted):
                if self._closing.is_set():
                    return
                self._ask(model)
                self._closing.wait(REAL_PAUSE_S)

    def stop(self) -> None:
        """What was asked for is seen to its end."""
        self._closing.set()
        self.join(MOST_S)

    def outcome(self) -> Outcome:
        made = ", ".join(f"{number} of {model}" for model, number in sorted(self._ended.items()))
        lacking = f"; without weights: {', '.join(self._lacking)}" if self._lacking else ""
        faults = [*self._link.faults, *self._faults]
        is_kept = not faults and not self.is_alive() and len(self._ended) == len(self._wanted)
        return Outcome(
            "meanwhile: jobs of real engines, on this machine's processor",
            "each succeeds, and its bytes are those of its record",
            f"{made}{lacking}{''.join(f'; {fault}' for fault in faults)}",
            is_kept,
        )

    def _ask(self, model: str) -> None:
        key = {"Idempotency-Key": str(uuid.uuid4())}
        body = {"model": model, "parameters": self._wanted[model]}
        accepted = self._until(202, "POST", "/v1/jobs", json=body, headers=key)
        operation = accepted.json() if accepted is not None else {}
        while operation and operation["state"] not in FINAL:
            time.sleep(LOOK_S)
            seen = self._until(200, "GET", f"/v1/jobs/{operation['id']}")
            operation = {} if seen is None else seen.json()
        if operation.get("state") != "succeeded":
            self._faults.append(f"{model}: {operation}")
            return
        (artifact,) = operation["artifacts"]
        content = self._until(200, "GET", f"/v1/artifacts/{artifact['id']}/content")
        if content is None or hashlib.sha256(content.content).hexdigest() != artifact["sha256"]:
            self._faults.append(f"{model}: other bytes than {artifact}")
        self._ended[model] += 1

    def _until(self, status: int, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """Asked until it is answered so; None when something else came that no promise allows."""
        while not self._link.faults:
            answer = self._link.ask(method, path, **options)
            if answer is not None and self._link.expect(answer, status, path):
                return answer
            time.sleep(LOOK_S)
        return None


def raced(seen: dict[str, Any], claims: int, slots: int) -> Outcome:
    """The claims of four processes as a line."""
    is_kept = (
        seen["claims"] >= LEAST * claims
        and (seen["most"], seen["uneven"]) == (slots, 0)
        and seen["share"] <= 1.05 * seen["least"]
    )
    return Outcome(
        f"meanwhile: {claims:,} claims by four processes on {slots} slots",
        f"never more than {slots} at once; accounts' shares within 5 %",
        f"{seen['claims']:,} in {seen['took_s']:.0f} s, {seen['most']} at most, shares {seen['least']:,}"
        f" to {seen['share']:,}",
        is_kept,
    )


def table(outcomes: list[Outcome]) -> str:
    """Columns of equal width."""
    lines = [("what", "expected", "seen", "")]
    lines += [
        (each.what, each.expected, each.seen, "kept" if each.is_kept else "BROKEN") for each in outcomes
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _settings(folder: Path, shots: Shots) -> dict[str, str]:
    (folder / "tenuto.toml").write_text(PRICES)
    return {
        "TENUTO_CONFIG": str(folder / "tenuto.toml"),
        "TENUTO_REQUESTS_PER_SECOND": "0",
        "TENUTO_SPEECH_SLOTS": "6",
        "TENUTO_RECOGNITION_SLOTS": "2",
        "TENUTO_IMAGE_SLOTS": "2",
        "TENUTO_DRAIN_S": "10",
        **shots.variables,
    }


def _clients(fleet: Fleet, seed: int) -> list[Client]:
    """Half of them at each of the two APIs with fake engines."""
    book = Book(Media.make())
    clients = []
    for number, account in enumerate(ACCOUNTS):
        key = fleet.operator.make_key(account, credit=CREDIT)
        clients.append(Client(fleet.apis[number % 2].url, account, key, book, f"{seed}/{number}"))
    for client in clients:
        client.start()
    return clients


def _carried_out(fleet: Fleet, shots: Shots, blow: Blow) -> Outcome:
    """A blow that does not come to its end is a line of the table, too."""
    try:
        return blow(fleet, shots)
    except AssertionError as error:
        return Outcome(blow.__name__.replace("_", " "), "an end", str(error)[:300], is_kept=False)


def _at_rest(clients: list[Client]) -> Outcome:
    """No more blows: everything comes to its end by itself."""
    began = time.monotonic()
    for client in clients:
        client.finish()
    for patience_s, lose_it in ((PATIENCE_S, Client.lose_patience), (REST_S, Client.give_up)):
        for client in clients:
            client.join(max(0.0, began + patience_s - time.monotonic()))
            lose_it(client)
    left, took_s = sum(len(client.unfinished()) for client in clients), time.monotonic() - began
    return Outcome(
        "no more blows",
        "every job comes to its end",
        f"{left} left after {took_s:.0f} s",
        not left,
    )


def _load(clients: list[Client], ends: Counter[str]) -> Outcome:
    counts = sum((client.link.counts for client in clients), Counter[str]())
    wrong = [status for status in counts if status.startswith("5") and status != "503"]
    answers = ", ".join(f"{status}: {number:,}" for status, number in sorted(counts.items()))
    jobs = ", ".join(
        f"{number} {name.removeprefix('jobs ')}" for name, number in sorted(ends.items()) if "jobs" in name
    )
    return Outcome(
        f"meanwhile: {len(clients)} clients with fake engines (speech, recognition, images, paid calls)",
        "no 5xx but 503",
        f"{answers}; jobs: {jobs}",
        not wrong,
    )


def _promises(found: list[str]) -> Outcome:
    return Outcome(
        "what clients saw, records, ledger, bytes and logs against the promises",
        "nothing lost, doubled, overdrawn, wrong or told",
        "nothing found" if not found else " | ".join(line[:200] for line in found[:5]),
        not found,
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
