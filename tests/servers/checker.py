"""What must hold after any crash, looked up in the database, the blobs and the operator's own audit."""

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

from servers.service import RunningService
from tenuto.db.database import Database, Row, Transaction

PRICE = "0.05"
PRICE_MICROS = 50_000
PRICED = f'[models."fake/speech"]\nprice = "{PRICE}"\n'


def open_records(service: RunningService) -> Database:
    """The service's own database, beside it."""
    return service.open_database()


def let_an_hour_pass(service: RunningService) -> None:
    """For the sweep, which one worker does an hour: the next one that starts does it now."""
    database = open_records(service)
    database.write(lambda tx: tx.run("delete from sweep"))
    database.close()


def touch(database: Database, job_id: str = "") -> None:
    """Take the locks that a worker takes, with a job also those of its attempt, and change nothing."""
    database.write(lambda tx: tx.run("update job set metadata = metadata where id = :id", id=job_id))
    database.write(lambda tx: tx.run("update attempt set beat = beat where job_id = :id", id=job_id))
    database.write(lambda tx: tx.run("update worker set pid = pid"))


def rows(database: Database, sql: str, **parameters: Any) -> list[dict[str, Any]]:
    def read(tx: Transaction) -> list[Row]:
        return tx.all(sql, **parameters)

    return [{name: row[name] for name in row.keys()} for row in database.read(read)]  # noqa: SIM118


def check_audit(service: RunningService) -> None:
    """Balances, holds, charges, slots, artifacts and events agree (P3, P4, P8)."""
    done = service.command("admin", "audit", "--deep", check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def check_jobs(database: Database, jobs: int) -> None:
    """So many jobs, each succeeded with one artifact, one hold and one charge of its price (P1, P2, P3)."""
    states = rows(database, "select state, count(*) as jobs from job group by state")
    keys = rows(database, "select count(*) as keys, count(distinct job_id) as jobs from idempotency")
    artifacts = rows(database, "select count(*) as artifacts, count(distinct job_id) as jobs from artifact")
    entries = rows(
        database,
        """select type, count(*) as entries, count(distinct job_id) as jobs,
                  cast(sum(revenue_micros) as bigint) as revenue
           from entry where type <> 'credit' group by type order by type""",
    )

    assert states == [{"state": "succeeded", "jobs": jobs}]
    assert keys == [{"keys": jobs, "jobs": jobs}]
    assert artifacts == [{"artifacts": jobs, "jobs": jobs}]
    assert entries == [
        {"type": "hold", "entries": jobs, "jobs": jobs, "revenue": 0},
        {"type": "settle", "entries": jobs, "jobs": jobs, "revenue": jobs * PRICE_MICROS},
    ]


def check_balances(database: Database, credit_micros: int) -> None:
    """Every account has what it was given less what its succeeded jobs cost, and holds nothing."""
    wrong = rows(
        database,
        """select a.name, a.available_micros, a.held_micros, count(j.id) as jobs
           from account a left join job j on j.account_id = a.id and j.state = 'succeeded'
           group by a.name, a.available_micros, a.held_micros
           having a.available_micros <> :credit - :price * count(j.id) or a.held_micros <> 0""",
        credit=credit_micros,
        price=PRICE_MICROS,
    )

    assert wrong == []


def check_blobs(service: RunningService, database: Database) -> int:
    """Every blob with a row is in its place, whole (P5, P6); gives how many files nobody refers to."""
    files = {path.name: path for path in (service.folder / "blobs").rglob("blob_*") if path.is_file()}
    known = rows(database, "select id, size_bytes, sha256 from blob order by id")
    damaged = [row["id"] for row in known if row["id"] not in files or not _is_whole(files[row["id"]], row)]

    assert damaged == []
    return len(set(files) - {row["id"] for row in known})


def check_integrity(service: RunningService) -> None:
    """SQLite's own check of the file."""
    connection = sqlite3.connect(service.folder / "tenuto.db")
    found = connection.execute("pragma integrity_check").fetchall()
    connection.close()

    assert found == [("ok",)]


def check_everything(service: RunningService, *, jobs: int, credit_micros: int) -> None:
    """All of the above; for a service whose jobs have all ended."""
    check_audit(service)
    database = open_records(service)
    try:
        check_jobs(database, jobs)
        check_balances(database, credit_micros)
        check_blobs(service, database)
    finally:
        database.close()
    if service.database_url is None:
        check_integrity(service)


def _is_whole(path: Path, row: dict[str, Any]) -> bool:
    content = path.read_bytes()
    return (len(content), hashlib.sha256(content).hexdigest()) == (row["size_bytes"], row["sha256"])
