"""`tenuto admin recover` and `audit`, beside a service that runs: unknown outcomes, money, and damage."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from servers.service import RunningService
from tenuto.db.database_opening import open_database
from tenuto.features.decoding.wav import pcm16_wav

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


def test_a_job_that_waits_is_shown_with_its_evidence_and_completed_with_a_file(
    paid_service: RunningService, stuck: Callable[[str], str], tmp_path: Path
) -> None:
    """`list` says which, `evidence` what each exit would do to the money. Without a recorded result one
    brings the bytes, which are what the caller downloads (P10)."""
    job_id = stuck("completed")
    listed = {line["job"]: line for line in rows(paid_service.command("admin", "recover", "list"))}
    text = paid_service.command("admin", "evidence", job_id).stdout
    held = balance(paid_service, "completed")
    words = ("admin", "recover", "complete", job_id)
    file, garbage = tmp_path / "result.wav", tmp_path / "garbage.wav"
    file.write_bytes(pcm16_wav(bytes(2 * 2400), 24_000, 1))
    garbage.write_bytes(b"RIFF")
    without = paid_service.command(*words, check=False)
    wrong = paid_service.command(*words, "--file", str(garbage), check=False)
    done = paid_service.command(*words, "--file", str(file))
    operation = paid_service.wait(job_id)
    with paid_service.client() as client:
        content = client.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content").content

    assert (METERED, "1", "0.050000") == tuple(listed[job_id][name] for name in ("model", "attempts", "held"))
    complete = f"  tenuto {' '.join(words)} --file FILE\n    0.050000 are charged, 0.000000 released"
    void = f"  tenuto admin recover void {job_id}\n    nothing is charged, 0.050000 released"
    assert complete in text and void in text and ("0.950000", "0.050000") == held
    assert f"bring one: tenuto admin recover complete {job_id} --file FILE" in told(without)
    assert "the file is not a result of a speech job, which is a WAV: " in told(wrong)
    assert done.stdout.startswith(f"{job_id} succeeded") and "succeeded" == operation["state"]
    assert file.read_bytes() == content
    assert ("0.950000", "0.000000") == balance(paid_service, "completed")


def test_a_job_is_requeued_and_then_voided(paid_service: RunningService, stuck: Callable[[str], str]) -> None:
    """By the operator's word alone: the outcome is unknown the second time, too. Given up, nothing is
    charged, and a second word finds nothing that waits (P10)."""
    job_id = stuck("requeued")
    words = ("--operator", "alice", "--note", "ticket 7")
    requeued = paid_service.command("admin", "recover", "requeue", job_id, *words)
    operation = paid_service.wait(job_id)
    shown = paid_service.command_json("admin", "evidence", job_id)
    [event] = [event for event in shown["events"] if event["type"] == "requeued"]
    held = balance(paid_service, "requeued")
    voided = paid_service.command("admin", "recover", "void", job_id, "--cancelled")
    again = paid_service.command("admin", "recover", "void", job_id, check=False)

    assert f"{job_id} is queued again\n" == requeued.stdout
    assert ("alice", "ticket 7") == (event["operator"], event["note"])
    assert ("recovery_required", 2) == (operation["state"], operation["attempt"])
    assert f"{job_id} is cancelled, its hold released\n" == voided.stdout
    assert "cancelled" == paid_service.wait(job_id)["state"]
    assert [("0.950000", "0.050000"), ("1.000000", "0.000000")] == [held, balance(paid_service, "requeued")]
    assert "is cancelled and does not wait for recovery; `tenuto admin recover list` shows" in told(again)


def balance(service: RunningService, account: str) -> tuple[str, str]:
    [own] = [line for line in service.command_json("admin", "accounts", "list") if line["name"] == account]
    return own["available"], own["held"]


def test_the_audit_names_what_disagrees_and_fails(operator: Operator, database_url: str) -> None:
    """A balance that no entry explains: the account is named, the exit code is 1; doctor points here. Where
    nothing is, nothing is made."""
    missing = operator("admin", "audit")
    assert f"there is no Tenuto data in {operator.folder}; name its folder with --data" in told(missing)
    assert not operator.folder.exists()
    operator.settings.update(database=database_url, engines="fake")
    account = operator.json("admin", "accounts", "create", "me", "--credit", "1")
    database = open_database(database_url)
    database.write(lambda tx: tx.run("update account set available_micros = available_micros + 1"))
    database.close()
    done = operator("admin", "audit")
    [found] = json.loads(operator("admin", "audit", "--json").stdout)["findings"]
    looked = operator("admin", "doctor")

    assert (1, 1) == (done.returncode, looked.returncode)
    assert done.stdout.startswith(
        f"{account['id']}: the account's balances are not the sums of its entries"
        " (available_micros=1000001 entries_available=1000000 held_micros=0 entries_held=0) → "
    )
    assert "1 findings in 1 accounts, 0 jobs, 1 entries" in done.stderr
    assert ("account_balance", account["id"]) == (found["check"], found["subject"])
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
    shallow = paid_service.command("admin", "audit").stdout
    file.write_bytes(content)

    assert (True, []) == (sound["clean"], sound["findings"]) and sound["hashed"]["blobs"] > 0
    assert damaged.stdout.startswith(f"{file.name}: the bytes are not those that were written")
    assert job_id in damaged.stdout and 1 == damaged.returncode
    assert re.fullmatch(r"[^:]+ agrees with the ledger: \d+ accounts, \d+ jobs, \d+ entries\n", shallow)
