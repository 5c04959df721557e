"""An act whose answer is lost happens once, and the command or request that did it reports what is so."""

import hashlib
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from attack.conftest import MakeService
from servers import flacs
from servers.proxy import Proxy, Towards
from servers.service import TENUTO, RunningService
from tenuto.features.decoding.wav import pcm16_wav
from tenuto.ids import Ids

COMMITTED = b"COMMIT\0"
"""What PostgreSQL says to a commit that was done."""
AFTER_OPENING = 1
"""Which one is the command's own: opening a database whose migrations are applied commits nothing."""


@pytest.fixture
def linked(make_service: MakeService, linked_url: str) -> RunningService:
    """An installation, not started, whose database lies behind the proxy; bob has an account."""
    place = make_service(None, linked_url)
    place.command("admin", "accounts", "create", "bob", "--credit", "0")
    return place


def test_credit_whose_answer_is_lost_is_looked_up(linked: RunningService, link: Proxy) -> None:
    """COMMIT is done and its answer lost: the command asks again and reports the credit there is (P3)."""
    cuts = link.cuts()
    link.cut_at(COMMITTED, Towards.CLIENT, nth=AFTER_OPENING)
    done = linked.command("admin", "accounts", "credit", "bob", "100")

    assert cuts + 1 == link.cuts()
    assert ("bob: 100.000000 CNY available\n", 0) == (done.stdout, done.returncode)
    assert "100.000000" == _available(linked)


def test_credit_whose_outcome_stays_unknown_names_what_cannot_book_twice(
    linked: RunningService, link: Proxy
) -> None:
    """The database stays away: exit 1, and a command with the ledger line's id, which books once (P3)."""
    link.cut_at(COMMITTED, Towards.CLIENT, nth=AFTER_OPENING, and_refuse=True)
    lost = linked.command("admin", "accounts", "credit", "bob", "100", check=False)
    link.pass_on()
    [again] = re.findall(r"tenuto (admin accounts credit bob 100 --id entry_\w{26})", lost.stderr)
    answers = [linked.command(*shlex.split(again)).stdout for _ in range(2)]
    other = linked.command(*shlex.split(again.replace("100", "7")), check=False)

    assert (1, "") == (lost.returncode, lost.stdout)
    assert "whether it is stored is unknown" in lost.stderr
    assert ["bob: 100.000000 CNY available\n"] * 2 == answers
    assert (1, True) == (other.returncode, "is another line of the ledger" in other.stderr)
    assert "100.000000" == _available(linked)


@pytest.mark.parametrize(
    ("arguments", "listed", "expected"),
    [
        (
            ("admin", "accounts", "create", "eve", "--credit", "5"),
            "accounts",
            [("bob", "0.000000"), ("eve", "5.000000")],
        ),
        (("admin", "keys", "create", "--account", "bob"), "keys", [("default", None)]),
        (("admin", "accounts", "suspend", "bob"), "accounts", [("bob", "0.000000")]),
    ],
)
def test_every_command_reports_what_is_so(
    linked: RunningService,
    link: Proxy,
    arguments: tuple[str, ...],
    listed: str,
    expected: list[tuple[str, str | None]],
) -> None:
    """Accounts and keys are made once, with their credit; the key that is printed is the one there is."""
    link.cut_at(COMMITTED, Towards.CLIENT, nth=AFTER_OPENING)
    cuts = link.cuts()
    done = linked.command(*arguments)
    rows = linked.command_json("admin", listed, "list")

    assert cuts + 1 == link.cuts()
    assert expected == [(row["name"], row.get("available")) for row in rows]
    assert listed != "keys" or done.stdout.strip().endswith(rows[0]["key"].split("…")[1])


def test_credit_of_a_command_that_was_killed_is_booked_once(tmp_path: Path) -> None:
    """SQLite: SIGKILL between COMMIT and the answer; the same id again books nothing more (P3)."""
    place = RunningService(tmp_path / "data")
    place.command("admin", "accounts", "create", "bob", "--credit", "0")
    entry_id = Ids(lambda: 1_800_000_000_000).new("entry")
    again = ("admin", "accounts", "credit", "bob", "100", "--id", entry_id)
    armed = RunningService(tmp_path / "data", variables={"TENUTO_FAILPOINT": "db.after_commit:1:kill"})
    killed = armed.command(*again, check=False)
    booked = _available(place)
    done = place.command(*again)

    assert (-9, "") == (killed.returncode, killed.stdout)
    assert ("100.000000", "bob: 100.000000 CNY available\n") == (booked, done.stdout)
    assert "100.000000" == _available(place)


def test_a_result_that_cannot_be_written_does_not_hide_what_was_done(tmp_path: Path) -> None:
    """stdout on a full disk: exit 1, and the error says that the credit is booked."""
    place = RunningService(tmp_path / "data")
    place.command("admin", "accounts", "create", "bob", "--credit", "0")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [TENUTO, "admin", "accounts", "credit", "bob", "1"],
            env=place.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert (1, True) == (done.returncode, "this is done" in done.stderr)
    assert "1.000000" == _available(place)


def _available(place: RunningService) -> str:
    """What bob has."""
    [bob] = [row for row in place.command_json("admin", "accounts", "list") if row["name"] == "bob"]
    return str(bob["available"])


@pytest.fixture
def running(make_service: MakeService, linked_url: str) -> RunningService:
    """A service whose database lies behind the proxy; its worker seldom writes there."""
    service = make_service(
        None, linked_url, TENUTO_WEBHOOKS="any", TENUTO_HEARTBEAT_S="5", TENUTO_SILENCE_S="30"
    )
    service.start()
    service.key = service.make_key(credit="5")
    return service


def rows(service: RunningService, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(service.environment["TENUTO_DATABASE"], autocommit=True) as connection:
        return connection.execute(query).fetchall()


WAV, FLAC = pcm16_wav(bytes(2 * 16_000), 16_000, 1), flacs.made(flacs.of(*flacs.noise(16_000)))
WEBHOOK = b'{"url": "https://a.example/", "events": ["job.succeeded"]}'
MADE = {
    "voice where account_id is not null": ("/v1/voices", WAV, "audio/wav"),
    "artifact": ("/v1/input-artifacts", FLAC, "audio/flac"),
    "webhook": ("/v1/webhooks", WEBHOOK, "application/json"),
}
"""What a request makes, by its table: the route, the body and its type."""


def test_what_a_request_makes_is_made_once(running: RunningService, link: Proxy) -> None:
    """COMMIT is done and its answer lost: 201, of the one record there is, with or without a key (P3)."""
    cuts = link.cuts()
    with running.client() as http:
        for table, (path, body, media_type) in MADE.items():
            headers = {"Content-Type": media_type, "X-Service-Voice-Name": "mine"}
            headers["X-Service-Content-SHA256"] = hashlib.sha256(body).hexdigest()
            ids = []
            # Now and then the worker's own commit is cut, and not the request's.
            for number in range(6):
                own = {"Idempotency-Key": f"{media_type} {number}"} if number % 2 else {}
                link.cut_at(COMMITTED, Towards.CLIENT)
                answer = http.post(path, content=body, headers=headers | own)
                assert 201 == answer.status_code, answer.text
                record = answer.json()
                ids.append(record.get("voice_id") or record.get("artifact", record)["id"])
            link.pass_on()

            assert sorted(ids) == sorted(each for (each,) in rows(running, f"select id from {table}"))

    assert cuts + 6 * len(MADE) == link.cuts()


def test_a_webhook_is_rotated_and_informed_once(running: RunningService, link: Proxy) -> None:
    """COMMIT is done and its answer lost: the secret before it signs beside the one that is answered, and one
    test message is queued for each request."""
    with running.client() as http:
        made = http.post("/v1/webhooks", content=WEBHOOK, headers={"Content-Type": "application/json"}).json()
        path, secrets, ids = f"/v1/webhooks/{made['id']}", [made["secret"]], []
        for _ in range(5):
            link.cut_at(COMMITTED, Towards.CLIENT)
            rotated = http.post(f"{path}/rotate")
            assert 200 == rotated.status_code, rotated.text
            secrets.append(rotated.json()["secret"])
            link.pass_on()
            assert [(secrets[-1], secrets[-2])] == rows(running, "select secret, old_secret from webhook")
        for _ in range(5):
            link.cut_at(COMMITTED, Towards.CLIENT)
            tested = http.post(f"{path}/test")
            assert 202 == tested.status_code, tested.text
            link.cut_at(COMMITTED, Towards.CLIENT)
            again = http.post(f"{path}/deliveries/{tested.json()['id']}/redeliver")
            assert 202 == again.status_code, again.text
            ids.append(again.json()["id"])
    link.pass_on()

    assert sorted(ids) == sorted(each for (each,) in rows(running, "select id from webhook_delivery"))
