"""`tenuto admin recover` and `audit`, beside a service that runs: unknown outcomes, money, and damage."""

import json
import re
import wave
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from servers.service import RunningService
from tenuto.db.database import Database
from tenuto.db.database_opening import open_database

pytestmark = pytest.mark.variant("database", only="postgresql")

METERED = "fake/metered-speech"


@pytest.fixture
def stuck(paid_service: RunningService) -> Callable[[str], str]:
    """Makes a job whose paid call has an unknown outcome, of an account with 1 CNY; gives its id."""

    def make(account: str) -> str:
        paid_service.key = paid_service.make_key(account, credit="1")
        job_id = paid_service.submit("[fake:unknown] Word.", model=METERED)
        assert "recovery_required" == paid_service.wait(job_id)["state"]
        return job_id

    return make


def test_jobs_that_wait_are_listed_and_shown_with_their_evidence(
    paid_service: RunningService, stuck: Callable[[str], str]
) -> None:
    """The list says which and why; `show` has the evidence, for people and as JSON (P10)."""
    job_id = stuck("shown")
    listed = {line["job"]: line for line in rows(paid_service.command("admin", "recover", "list"))}
    evidence = paid_service.command_json("admin", "evidence", job_id)
    text = paid_service.command("admin", "evidence", job_id).stdout

    assert (METERED, "1", "0.050000") == tuple(listed[job_id][name] for name in ("model", "attempts", "held"))
    assert (
        f"  tenuto admin recover complete {job_id} --file FILE\n    0.050000 are charged, 0.000000 released"
        in text
    )
    assert f"  tenuto admin recover void {job_id}\n    nothing is charged, 0.050000 released" in text
    assert f"body_sha256          {evidence['job']['body_sha256']}\n" in text
    assert "recovery_required" == evidence["job"]["state"]
    assert 1 == len(evidence["attempts"])
    assert ["queued", "recovery_required"] == [evidence["events"][i]["type"] for i in (0, -1)]
    assert ("0.950000", "0.050000") == balance(paid_service, "shown")


def test_completing_with_a_file_charges_and_delivers_it(
    paid_service: RunningService, stuck: Callable[[str], str], tmp_path: Path
) -> None:
    """Without a recorded result the operator brings the bytes; those are what the caller downloads."""
    job_id = stuck("completed")
    file, garbage = tmp_path / "result.wav", tmp_path / "garbage.wav"
    write_wav(file)
    garbage.write_bytes(b"RIFF")
    without = paid_service.command("admin", "recover", "complete", job_id, check=False)
    wrong = paid_service.command("admin", "recover", "complete", job_id, "--file", str(garbage), check=False)
    done = paid_service.command("admin", "recover", "complete", job_id, "--file", str(file))
    operation = paid_service.wait(job_id)
    with paid_service.client() as client:
        content = client.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content").content

    assert f"bring one: tenuto admin recover complete {job_id} --file FILE" in told(without)
    assert "the file is not a result of a speech job, which is a WAV: " in told(wrong)
    assert done.stdout.startswith(f"{job_id} succeeded")
    assert ("succeeded", 100) == (operation["state"], operation["result"]["duration_ms"])
    assert file.read_bytes() == content
    assert ("0.950000", "0.000000") == balance(paid_service, "completed")


def test_requeueing_runs_it_again(paid_service: RunningService, stuck: Callable[[str], str]) -> None:
    """By the operator's word alone; this engine's outcome is unknown the second time, too."""
    job_id = stuck("requeued")
    done = paid_service.command(
        "admin", "recover", "requeue", job_id, "--operator", "alice", "--note", "ticket 7"
    )
    operation = paid_service.wait(job_id)
    shown = paid_service.command_json("admin", "evidence", job_id)
    [requeued] = [event for event in shown["events"] if event["type"] == "requeued"]

    assert f"{job_id} is queued again\n" == done.stdout
    assert ("alice", "ticket 7") == (requeued["operator"], requeued["note"])
    assert "requeued by alice: ticket 7" in [entry["note"] for entry in shown["money"]["entries"]]
    assert ("recovery_required", 2) == (operation["state"], operation["attempt"])
    assert ("0.950000", "0.050000") == balance(paid_service, "requeued")


def test_voiding_releases_the_hold(paid_service: RunningService, stuck: Callable[[str], str]) -> None:
    """The job ends cancelled and nothing is charged; a second word finds nothing that waits."""
    job_id = stuck("voided")
    done = paid_service.command("admin", "recover", "void", job_id, "--cancelled")
    again = paid_service.command("admin", "recover", "void", job_id, check=False)

    assert f"{job_id} is cancelled, its hold released\n" == done.stdout
    assert "cancelled" == paid_service.wait(job_id)["state"]
    assert ("1.000000", "0.000000") == balance(paid_service, "voided")
    assert "is cancelled and does not wait for recovery; `tenuto admin recover list` shows" in told(again)
    assert 1 == again.returncode


def balance(service: RunningService, account: str) -> tuple[str, str]:
    """What an account has, and what is held of it."""
    [own] = [line for line in service.command_json("admin", "accounts", "list") if line["name"] == account]
    return own["available"], own["held"]


def write_wav(path: Path) -> None:
    """A tenth of a second of silence."""
    with wave.open(str(path), "wb") as wav:
        wav.setparams((1, 2, 24_000, 0, "NONE", ""))
        wav.writeframes(bytes(2 * 2400))


def test_the_audit_names_what_disagrees_and_fails(
    operator: Operator, dialect: str, database_url: str
) -> None:
    """A balance that no entry explains: the account is named, the exit code is 1; doctor points here. Where
    nothing is, nothing is made."""
    missing = operator("admin", "audit")
    assert f"there is no Tenuto data in {operator.folder}; name its folder with --data" in told(missing)
    assert not operator.folder.exists()
    operator.settings.update(database=database_url, engines="fake")
    account = operator.json("admin", "accounts", "create", "me", "--credit", "1")
    database: Database = open_database(database_url)
    database.write(lambda tx: tx.run("update account set available_micros = available_micros + 1"))
    database.close()
    done = operator("admin", "audit")
    plain = operator("admin", "audit", "--json")
    looked = operator("admin", "doctor")
    [line] = done.stdout.splitlines()

    assert (1, 1, 1) == (done.returncode, plain.returncode, looked.returncode)
    assert line.startswith(
        f"{account['id']}: the account's balances are not the sums of its entries"
        " (available_micros=1000001 entries_available=1000000 held_micros=0 entries_held=0) → "
    )
    assert "1 findings in 1 accounts, 0 jobs, 1 entries" in done.stderr
    assert [("account_balance", account["id"])] == [
        (found["check"], found["subject"]) for found in json.loads(plain.stdout)["findings"]
    ]
    assert "FAIL  ledger: 1 discrepancies → tenuto admin audit" in looked.stdout.splitlines()


def test_the_deep_audit_finds_the_file_that_was_changed(paid_service: RunningService) -> None:
    """Beside the service: sound at first, then one bit of a result is another (P5, P6)."""
    paid_service.key = paid_service.make_key("deep", credit="1")
    job_id = paid_service.submit("Word.")
    paid_service.wait(job_id)
    sound = paid_service.command_json("admin", "audit", "--deep")
    file = max((paid_service.folder / "blobs").glob("*/blob_*"), key=lambda file: file.stat().st_mtime_ns)
    content = file.read_bytes()
    file.chmod(0o600)
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    damaged = paid_service.command("admin", "audit", "--deep", check=False)
    plain = json.loads(paid_service.command("admin", "audit", "--deep", "--json", check=False).stdout)
    shallow = paid_service.command("admin", "audit")
    file.write_bytes(content)

    assert (True, []) == (sound["clean"], sound["findings"])
    assert sound["hashed"]["blobs"] > 0
    assert damaged.stdout.startswith(f"{file.name}: the bytes are not those that were written")
    assert job_id in damaged.stdout
    assert 1 == damaged.returncode
    assert [("blob_damaged", file.name)] == [(one["check"], one["subject"]) for one in plain["findings"]]
    assert 0 == shallow.returncode
    assert re.fullmatch(
        r"every balance, hold, charge and slot agrees with the ledger: \d+ accounts, \d+ jobs, \d+ entries\n",
        shallow.stdout,
    )
