"""`tenuto admin migrate`, and processes that leave it to somebody else to bring the database up to date."""

import re
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import httpx2

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
    """A check before names what is missing and applies nothing; a second run changes nothing (P21)."""
    operator.settings.update(database=empty_database_url, engines="fake")
    names = [path.stem for path in sorted(MIGRATIONS.glob("*.sql"))]
    with closing(open_database(empty_database_url)) as database:
        before = operator("admin", "migrate", "--check")
        tables = database.read(lambda tx: schema.tables(tx, database.dialect))
    made = operator("admin", "migrate")
    again, checked = operator("admin", "migrate"), operator("admin", "migrate", "--check")

    assert (1, names, []) == (before.returncode, before.stdout.split(), tables)
    assert (0, 0, 0) == (made.returncode, again.returncode, checked.returncode)
    assert f"the database is up to date: {len(names)} migrations, the newest is {names[-1]}\n" == made.stdout
    assert made.stdout == again.stdout and "" == checked.stdout


def test_api_and_worker_wait_until_somebody_has_migrated_and_run_a_job_together(
    operator: Operator, empty_database_url: str
) -> None:
    """The API answers only then, a command says what to do; what waits ends when it is told to (P19, P21).
    The worker runs the model it was given, another is not callable."""
    open_database(empty_database_url).close()
    operator.settings.update(database=empty_database_url, engines="fake", migrations="wait")
    log = operator.folder.parent / "log"
    with log.open("w") as opened:
        api, stopped, worker = (
            subprocess.Popen(
                [TENUTO, *command],
                env=operator.environment(),
                stdout=subprocess.PIPE,
                stderr=opened,
                text=True,
            )
            for command in (("api", "--port", "0"), ("worker",), ("worker", "--models", "fake/speech"))
        )
    try:
        refused = operator("admin", "accounts", "list")
        until(lambda: log.read_text().count("database.awaited") == 3, HANG_S, "all wait")
        stopped.send_signal(signal.SIGTERM)
        code, waited = stopped.wait(HANG_S), api.poll() is None
        operator("admin", "migrate")
        assert api.stdout is not None
        first = api.stdout.readline()
        operator("admin", "accounts", "create", "me")
        key = operator.json("admin", "keys", "create", "--account", "me")["key"]
        head = {"Authorization": f"Bearer {key}"}
        with httpx2.Client(base_url=re.findall(r"http://[^,\s]+", first)[0], headers=head) as client:

            def submit(model: str) -> httpx2.Response:
                body = {"model": model, "parameters": {"text": "Word."}}
                return client.post("/v1/jobs", json=body, headers={"Idempotency-Key": model})

            until(lambda: submit("fake/speech").status_code == 202, HANG_S, "the worker is there")
            job = f"/v1/jobs/{submit('fake/speech').json()['id']}"
            until(lambda: client.get(job).json()["state"] == "succeeded", HANG_S, "it runs the job")
            other = submit("fake/metered-speech").status_code
        api.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGTERM)
        ends = [api.wait(HANG_S), worker.wait(HANG_S)]
    finally:
        for process in (api, stopped, worker):
            process.kill()
            process.wait()

    assert (0, True, 1) == (code, waited, refused.returncode)
    assert told(refused).endswith("run: tenuto admin migrate")
    assert (503, [0, 0]) == (other, ends)


def test_a_breaking_change_of_a_later_version_is_told_in_one_line(
    operator: Operator, database_url: str
) -> None:
    """Nothing is done, the line says what to do, the exit code is 1 (P21)."""
    operator.settings.update(database=database_url, engines="fake")
    later = "insert into migration (name, sha256, applied_at) values ('9998_breaking_drop', 'x', 0)"
    with closing(open_database(database_url)) as database:
        database.write(lambda tx: tx.run(later))
    refused = [operator("admin", "accounts", "list"), operator("serve", "--port", "0")]

    says = "The database is newer than this program: it has '9998_breaking_drop'. Install a newer version."
    assert [(1, says)] * 2 == [(each.returncode, told(each)) for each in refused]
