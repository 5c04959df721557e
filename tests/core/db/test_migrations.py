"""The migration runner, with migrations of its own."""

import threading
from pathlib import Path

import pytest

from tenuto.db.database import Database
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import check_known, migrate, pending
from tenuto.errors import OperatorError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two migrations, and a file that is none."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_first.sql").write_text("create table a (n bigint);\n\ncreate table b (n bigint);\n")
    (folder / "0002_second.sql").write_text("insert into a (n) values (2);\n")
    (folder / "README").write_text("not SQL")
    return folder


def test_migrations_are_applied_once_in_order(empty_database: Database, folder: Path) -> None:
    """The first call applies what is there, the next only what is new; to ask what is pending changes
    nothing.
    """
    names = ["0001_first", "0002_second"]
    assert names == pending(empty_database, folder=folder) == pending(empty_database, folder=folder)
    first = migrate(empty_database, folder=folder)
    again = migrate(empty_database, folder=folder)
    (folder / "0003_third.sql").write_text("update a set n = n + 1;\n")
    waiting = pending(empty_database, folder=folder)
    third = migrate(empty_database, folder=folder)
    row = empty_database.read(lambda tx: tx.one("select n from a"))

    assert (names, [], ["0003_third"], ["0003_third"]) == (first, again, waiting, third)
    assert row is not None
    assert [3] == [row["n"]]


def test_a_failed_migration_leaves_nothing(empty_database: Database, folder: Path) -> None:
    """A file that fails half-way is undone as a whole and applied anew when it is mended."""
    broken = folder / "0003_third.sql"
    broken.write_text("create table c (n bigint);\ninsert into nowhere values (1);\n")
    with pytest.raises(Exception, match="nowhere"):
        migrate(empty_database, folder=folder)
    broken.write_text("create table c (n bigint);\n")

    assert ["0003_third"] == migrate(empty_database, folder=folder)


def test_a_changed_file_is_refused(empty_database: Database, folder: Path) -> None:
    """A file that was applied may not change any more."""
    migrate(empty_database, folder=folder)
    (folder / "0001_first.sql").write_text("create table other (n bigint);\n")

    with pytest.raises(OperatorError, match="0001_first"):
        migrate(empty_database, folder=folder)


def test_a_database_with_a_later_breaking_change_is_refused(empty_database: Database, folder: Path) -> None:
    """A program that does not know a migration which takes something away leaves the database alone (P21)."""
    (folder / "0003_breaking_third.sql").write_text("drop table b;\n")
    migrate(empty_database, folder=folder)
    (folder / "0003_breaking_third.sql").unlink()

    for look in (migrate, pending):
        with pytest.raises(OperatorError, match=r"newer.*0003_breaking_third"):
            look(empty_database, folder=folder)


def test_a_database_to_which_a_later_version_has_added_is_used(
    empty_database: Database, folder: Path
) -> None:
    """An earlier program goes on with it: nothing is missing, nothing is pending (P21)."""
    migrate(empty_database, folder=folder)
    (folder / "0002_second.sql").unlink()

    assert ([], []) == (migrate(empty_database, folder=folder), pending(empty_database, folder=folder))


def test_only_some_may_be_applied(empty_database: Database, folder: Path) -> None:
    """A backup of an older version is restored into the tables of that version; the rest follows (P21)."""
    first = migrate(empty_database, folder=folder, only=frozenset({"0001_first"}))
    missing = pending(empty_database, folder=folder)
    rest = migrate(empty_database, folder=folder)

    assert (["0001_first"], ["0002_second"], ["0002_second"]) == (first, missing, rest)


def test_a_database_of_an_unreleased_version_is_refused(empty_database: Database, tmp_path: Path) -> None:
    """Its tables are left alone, and one sentence says that no released version reads them (P21)."""
    unreleased = tmp_path / "unreleased"
    unreleased.mkdir()
    (unreleased / "0001_initial.sql").write_text("create table account (n bigint);\n")
    migrate(empty_database, folder=unreleased)

    for look in (migrate, pending):
        with pytest.raises(OperatorError, match=r"before 0\.1\.0.*begin with an empty data folder"):
            look(empty_database)
    with pytest.raises(OperatorError, match=r"before 0\.1\.0"):
        check_known({"0001_initial": "0" * 64})


def test_two_may_migrate_at_once(empty_database_url: str, folder: Path) -> None:
    """Each migration is applied by one of those who start together, and nobody fails."""
    applied: list[str] = []

    def run() -> None:
        database = open_database(empty_database_url)
        applied.extend(migrate(database, folder=folder))
        database.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert ["0001_first", "0002_second"] == sorted(applied)
