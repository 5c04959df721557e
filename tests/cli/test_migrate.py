"""Databases that are not up to date, or outdated copies: `migrate`, `database accept`, and who waits."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from cli.conftest import Operator
from servers.command_lines import told
from servers.pairs import NAME, Pair, ask, make_pair
from servers.processes import until
from servers.service import TENUTO
from servers.speed import HANG_S
from tenuto.config import load
from tenuto.db import schema
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import migrate
from tenuto.file.blob_store_opening import open_store
from tenuto.process.newest_copy import begin, exchange, open_compared

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


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = make_pair()
    yield made
    made.stop()


def serve_a_moment(operator: Operator) -> None:
    """What the start of a process leaves in database and store."""
    settings = load(operator.environment())
    database = open_compared(settings)
    migrate(database)
    begin(database)
    exchange(database, open_store(settings, {}))
    database.close()


def test_commands_refuse_an_outdated_copy_until_it_is_accepted(operator: Operator, pair: Pair) -> None:
    """The old primary is given alone, by mistake or because nothing else is left: it gets nothing, and the
    message says what to do. Once it is accepted, the other is refused (P21)."""

    def on(database: str, *words: str) -> "subprocess.CompletedProcess[str]":
        operator.settings.update(database=database, engines="fake")
        return operator("admin", *words)

    old, new = pair.old.url(NAME), pair.new.url(NAME)
    operator.settings.update(database=old, engines="fake")
    serve_a_moment(operator)
    pair.promote()
    operator.settings.update(database=new)
    serve_a_moment(operator)
    refused = on(old, "accounts", "create", "lost")
    unchecked, checked = on(old, "migrate", "--check"), on(old, "doctor")
    undecided = on(pair.url, "database", "accept")
    accepted = on(old, "database", "accept")
    made = on(old, "accounts", "create", "kept")
    other = on(new, "accounts", "create", "lost too")

    for each in (refused, unchecked, other):
        assert told(each).startswith("the database is not the one in use: ")
        assert told(each).endswith("or accept this copy with: tenuto admin database accept")
    assert re.search(r"timeline 1, epoch \d+, and timeline 2, epoch \d+ is in use", told(refused))
    assert re.search(r"acceptance 1, timeline 1, epoch \d+ is in use", told(other))
    assert "several servers take writes" in told(undecided)
    assert [1, 1, 1, 1, 1, 0, 0] == [
        each.returncode for each in (refused, unchecked, other, checked, undecided, accepted, made)
    ]
    assert (["kept"], []) == tuple(ask(server, "select name from account") for server in (pair.old, pair.new))


def test_a_copy_of_an_older_version_is_accepted_and_an_empty_one_is_not(
    operator: Operator, pair: Pair
) -> None:
    """A dump from before an upgrade was restored: it lacks what tells copies apart, and nothing migrates it
    before it is accepted. A damaged record is named and replaced. A role without rights is told (P21)."""
    applied = "select name from migration order by 1"
    operator.settings.update(database=pair.old.url(NAME), engines="fake")
    serve_a_moment(operator)
    names = ask(pair.old, applied)
    for sql in ("drop table generation", "delete from migration where name like '0020%'"):
        pair.old.run(sql, NAME)
    refused = operator("admin", "migrate")
    accepted = operator("admin", "database", "accept")
    after = ask(pair.old, applied)
    operator.settings.update(database=pair.url)
    (operator.folder / "blobs" / "database.json").write_bytes(b"{")
    damaged = operator("admin", "accounts", "list")
    replaced = operator("admin", "database", "accept")
    pair.old.run("create role clerk login", NAME)
    operator.settings.update(database=pair.old.url(NAME).replace("postgres@", "clerk@"))
    without_rights = operator("admin", "accounts", "create", "none")
    pair.old.run("create database nothing")
    operator.settings.update(database=pair.old.url("nothing"))
    empty = operator("admin", "database", "accept")
    operator.settings.pop("database")

    assert "accept this copy with: tenuto admin database accept" in told(refused)
    assert (0, 0, names) == (accepted.returncode, replaced.returncode, after)
    assert "database.json in the store of bytes is damaged" in told(damaged)
    assert "refuses us: permission denied for table" in told(without_rights)
    assert "the database is empty" in told(empty)
    assert "SQLite" in told(operator("admin", "database", "accept"))
