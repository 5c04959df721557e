"""An operator's act whose answer is lost happens once, and the command that did it reports what is so."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from attack.conftest import MakeService
from servers.proxy import Proxy, Towards
from servers.service import TENUTO, RunningService
from tenuto.db.migrations import shipped
from tenuto.ids import Ids
from tenuto.media.wav import pcm16_wav

COMMITTED = b"COMMIT\0"
"""What PostgreSQL says to a commit that was done."""
AFTER_OPENING = len(shipped()) + 2
"""Which one is the command's own: opening commits once for the table of migrations and once for each."""


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


def test_a_voice_whose_answer_is_lost_is_imported_once(
    linked: RunningService, link: Proxy, tmp_path: Path
) -> None:
    """COMMIT is done and its answer lost: one voice, and the id that is printed is its own."""
    file = tmp_path / "voice.wav"
    file.write_bytes(pcm16_wav(bytes(2 * 16_000), 16_000, 1))
    linked.command("admin", "voices", "list")  # It adds the built-in voices.
    link.cut_at(COMMITTED, Towards.CLIENT, nth=AFTER_OPENING)
    cuts = link.cuts()
    done = linked.command("admin", "voices", "import", str(file), "--name", "once")
    listed = linked.command_json("admin", "voices", "list")

    assert cuts + 1 == link.cuts()
    assert [done.stdout.strip()] == [voice["id"] for voice in listed if voice["name"] == "once"]


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
