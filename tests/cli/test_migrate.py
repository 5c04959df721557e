"""`tenuto admin migrate`, and processes that leave it to somebody else to bring the database up to date."""

import signal
import subprocess
from pathlib import Path

from cli.conftest import Operator
from servers.command_lines import told
from servers.processes import until
from servers.service import TENUTO
from servers.speed import HANG_S
from tenuto.db import schema
from tenuto.db.database_opening import open_database

MIGRATIONS = Path(__file__).parents[2] / "packages" / "tenuto" / "src" / "tenuto" / "db" / "migrations"


def test_migrate_brings_an_empty_database_up_to_date_and_says_so(
    operator: Operator, empty_database_url: str
) -> None:
    """Checked before and after; a second run changes nothing (P21)."""
    operator.settings.update(database=empty_database_url, engines="fake")
    made = operator("admin", "migrate")
    again, checked = operator("admin", "migrate"), operator("admin", "migrate", "--check")
    names = [path.stem for path in sorted(MIGRATIONS.glob("*.sql"))]

    assert (0, 0, 0) == (made.returncode, again.returncode, checked.returncode)
    assert f"the database is up to date: {len(names)} migrations, the newest is {names[-1]}\n" == made.stdout
    assert made.stdout == again.stdout
    assert "" == checked.stdout


def test_a_check_names_what_is_missing_and_applies_nothing(
    operator: Operator, empty_database_url: str
) -> None:
    """It fails, so that a script can tell (P21)."""
    operator.settings.update(database=empty_database_url, engines="fake")
    database = open_database(empty_database_url)
    checked = operator("admin", "migrate", "--check")
    tables = database.read(lambda tx: schema.tables(tx, database.dialect))
    database.close()

    assert (1, [path.stem for path in sorted(MIGRATIONS.glob("*.sql"))]) == (
        checked.returncode,
        checked.stdout.split(),
    )
    assert [] == tables


def test_a_command_that_may_not_migrate_refuses_an_old_database(
    operator: Operator, empty_database_url: str
) -> None:
    """With `migrations = "wait"` a command does not wait, and says what to do."""
    open_database(empty_database_url).close()
    operator.settings.update(database=empty_database_url, engines="fake", migrations="wait")
    refused = operator("admin", "accounts", "list")

    assert 1 == refused.returncode
    assert told(refused).endswith("run: tenuto admin migrate")


def test_processes_wait_until_somebody_has_migrated(operator: Operator, empty_database_url: str) -> None:
    """The API answers only then; what waits ends when it is told to (P19, P21)."""
    operator.settings.update(database=empty_database_url, engines="fake", migrations="wait")
    log = (operator.folder.parent / "log").open("w")
    api, worker = (
        subprocess.Popen(
            [TENUTO, *command],
            env=operator.environment(),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        for command in (("api", "--port", "0"), ("worker",))
    )
    try:
        until(lambda: Path(log.name).read_text().count("database.awaited") == 2, HANG_S, "both wait")
        worker.send_signal(signal.SIGTERM)
        stopped = worker.wait(20)
        waited = api.poll() is None
        operator("admin", "migrate")
        assert api.stdout is not None
        first = api.stdout.readline()
    finally:
        for process in (api, worker):
            process.kill()
            process.wait()
        log.close()

    assert (0, True) == (stopped, waited)
    assert "Tenuto answers at http://" in first
