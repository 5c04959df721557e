"""Migrations killed between and inside, several processes at once; and the rule that they only add."""

import re
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tenuto.db import migrations, schema
from tenuto.db.database_opening import open_database
from tenuto.db.schema import Table
from tenuto.db.sql import statements

MIGRATE = """
import sys
from pathlib import Path
from tenuto import failpoints
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import migrate
failpoints.arm(sys.argv[2])
database = open_database(sys.argv[1])
print(*migrate(database, folder=Path(sys.argv[3])))
database.close()
"""
SHIPPED = migrations.load(files("tenuto.db") / "migrations")
# What a later version may add: so there is always one migration after another.
LATER = """
create table later (id text primary key, note text);
alter table job add column later_note text;
create index job_by_later_note on job (later_note);
insert into later (id, note) values ('1', 'there');
"""
STATEMENTS = sum(len(statements(script)) for script in (*(each.script for each in SHIPPED), LATER))
ADDS = re.compile(
    r"create (unique )?index \w+ on \w+|create table \w+|alter table \w+ add column \w+"
    r"|insert into \w+|update \w+ set"
    # No query names an index, so an earlier program is slower without it, and no more.
    r"|drop index \w+",
    re.IGNORECASE,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped migrations and a later one."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    for migration in SHIPPED:
        (folder / f"{migration.name}.sql").write_text(migration.script)
    (folder / "0990_later.sql").write_text(LATER)
    return folder


@pytest.fixture
def known(folder: Path) -> list[str]:
    """Their names."""
    return [migration.name for migration in migrations.load(folder)]


@pytest.fixture
def undisturbed(folder: Path) -> list[Table]:
    """The tables of a database that was migrated in peace; they are the same on either."""
    database = open_database(f"sqlite:///{folder}/undisturbed.db")
    migrations.migrate(database, folder=folder)
    tables = database.read(lambda tx: schema.tables(tx, database.dialect))
    database.close()
    return tables


@pytest.mark.parametrize(
    "armed",
    [
        f"migration.statement:{STATEMENTS // 2}:kill",
        f"migration.statement:{STATEMENTS}:kill",
        "migration.after_commit:1:kill",
    ],
)
def test_a_killed_migration_is_gone_on_with(
    empty_database_url: str, folder: Path, known: list[str], undisturbed: list[Table], armed: str
) -> None:
    """SIGKILL inside a migration leaves nothing of it, between two leaves the first: the next start does the
    rest, and the tables are those of an undisturbed one (P21).
    """
    killed = start(empty_database_url, folder, armed).wait(60)
    half = open_database(empty_database_url)
    done = list(half.read(lambda tx: migrations.applied(tx) if schema.tables(tx, half.dialect) else {}))
    rest = migrations.migrate(half, folder=folder)
    made = half.read(lambda tx: schema.tables(tx, half.dialect))
    half.close()

    assert -signal.SIGKILL == killed
    assert known == done + rest
    assert undisturbed == made


def test_processes_migrate_at_once_and_one_is_killed(
    empty_database_url: str, folder: Path, known: list[str], undisturbed: list[Table]
) -> None:
    """Three start together and one dies inside: every migration is applied once, nobody else fails (P21)."""
    started = [start(empty_database_url, folder, armed) for armed in ("migration.statement:9:kill", "", "")]
    told = [process.communicate(timeout=60) for process in started]
    opened = open_database(empty_database_url)
    applied = list(opened.read(migrations.applied))
    made = opened.read(lambda tx: schema.tables(tx, opened.dialect))
    opened.close()
    names = [name for out, _ in told for name in out.split()]

    # The first may find all done, and then it does not come to its place.
    assert started[0].returncode in (0, -signal.SIGKILL)
    assert [0, 0] == [process.returncode for process in started[1:]], told
    assert len(names) == len(set(names))
    assert known == applied
    assert undisturbed == made


@pytest.mark.parametrize("name", [migration.name for migration in SHIPPED])
def test_migrations_only_add(name: str) -> None:
    """Tables, indexes, columns that may be left out, rows: an earlier program can go on (P21).

    A unique index may refuse what an earlier program writes: it is made with its table, or on what is added.
    """
    [script] = [migration.script for migration in SHIPPED if migration.name == name]
    written = [re.sub(r"--[^\n]*", "", text).strip() for text in statements(script)]
    new = set(re.findall(r"create table (\w+)", script)) | set(re.findall(r"add column (\w+)", script))

    assert [] == [text for text in written if not ADDS.match(text)]
    assert [] == [
        text for text in written if "add column" in text and "not null" in text and "default" not in text
    ]
    unique = set(re.findall(r"create unique index (\w+)", " ".join(each.script for each in SHIPPED)))
    assert not unique & set(re.findall(r"drop index (\w+)", script))
    # A restore writes tables in the order in which they were made.
    assert [] == [text for text in written if "add column" in text and "references" in text]
    assert [] == [
        text
        for text in written
        if text.startswith("create unique index") and not new & set(re.findall(r"\w+", text))
    ]


def start(url: str, folder: Path, armed: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MIGRATE, url, armed, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
