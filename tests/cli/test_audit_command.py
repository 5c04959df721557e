"""`tenuto admin audit`, beside a service that works and on what was damaged: lines, JSON, exit codes."""

import json
import re
from pathlib import Path

import pytest

from cli.conftest import Operator
from servers import forking
from servers.command_lines import told
from servers.service import RunningService
from tenuto.db.database import Database
from tenuto.db.database_opening import open_database

pytestmark = pytest.mark.variant("database", only="postgresql")


def test_the_audit_of_a_sound_service_finds_nothing(paid_service: RunningService) -> None:
    paid_service.key = paid_service.make_key("audited", credit="1")
    job_ids = [paid_service.submit("Word.") for _ in range(5)]
    during = paid_service.command("admin", "audit")
    for job_id in job_ids:
        paid_service.wait(job_id)
    after = paid_service.command("admin", "audit")

    assert during.stdout.startswith("every balance, hold, charge and slot agrees with the ledger: ")
    assert re.fullmatch(r"[^:]+: \d+ accounts, \d+ jobs, \d+ entries\n", after.stdout)


def test_the_audit_names_what_disagrees_and_fails(
    operator: Operator, dialect: str, database_url: str
) -> None:
    """A balance that no entry explains: the account is named, the exit code is 1; doctor points here."""
    operator.settings.update(database=database_url, engines="fake")
    account = operator.json("admin", "accounts", "create", "me", "--credit", "1")
    database: Database = open_database(database_url)
    database.write(lambda tx: tx.run("update account set available_micros = available_micros + 1"))
    database.close()
    done = operator("admin", "audit")
    plain = operator("admin", "audit", "--json")
    environment = operator.environment() | {"LC_ALL": "zh_CN.UTF-8"}
    chinese = forking.complete(("admin", "audit"), env=environment, cwd=operator.folder.parent)
    looked = operator("admin", "doctor")
    [line] = done.stdout.splitlines()

    assert (1, 1, 1) == (done.returncode, plain.returncode, looked.returncode)
    assert line.startswith(
        f"{account['id']}: the account's balances are not the sums of its entries"
        " (available_micros=1000001 entries_available=1000000 held_micros=0 entries_held=0) → "
    )
    assert chinese.stdout.startswith(f"{account['id']}: 账户余额不等于其账目之和 (available_micros=1000001 ")
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
    file = newest_blob(paid_service.folder)
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


def test_the_audit_makes_nothing(operator: Operator) -> None:
    missing = operator("admin", "audit")

    assert f"there is no Tenuto data in {operator.folder}; name its folder with --data" in told(missing)
    assert not operator.folder.exists()


def newest_blob(folder: Path) -> Path:
    """The file of the result that was written last."""
    return max((folder / "blobs").glob("*/blob_*"), key=lambda file: file.stat().st_mtime_ns)
