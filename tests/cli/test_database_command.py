"""`tenuto admin database accept`, and commands that are given an outdated copy of the database."""

import re
from collections.abc import Iterator

import pytest

from cli.conftest import Operator
from servers.command_lines import told
from servers.pairs import NAME, Pair, ask, make_pair
from tenuto.config import load
from tenuto.db.migrations import migrate
from tenuto.file.blob_store_opening import open_store
from tenuto.process.newest_copy import begin, exchange, open_compared


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A primary with an empty database, and its standby."""
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
    old, new = pair.old.url(NAME), pair.new.url(NAME)
    operator.settings.update(database=old, engines="fake")
    serve_a_moment(operator)
    pair.promote()
    operator.settings.update(database=new)
    serve_a_moment(operator)
    operator.settings.update(database=old)
    refused = operator("admin", "accounts", "create", "lost")
    unchecked = operator("admin", "migrate", "--check")
    checked = operator("admin", "doctor")
    operator.settings.update(database=pair.url)
    undecided = operator("admin", "database", "accept")
    operator.settings.update(database=old)
    accepted = operator("admin", "database", "accept")
    made = operator("admin", "accounts", "create", "kept")
    operator.settings.update(database=new)
    other = operator("admin", "accounts", "create", "lost too")

    for each in (refused, unchecked, other):
        assert 1 == each.returncode
        assert "the database is not the one in use: " in told(each)
        assert told(each).endswith("or accept this copy with: tenuto admin database accept")
    assert re.search(r"timeline 1, epoch \d+, and timeline 2, epoch \d+ is in use", told(refused))
    assert re.search(r"acceptance 1, timeline 1, epoch \d+ is in use", told(other))
    assert (1, 1) == (checked.returncode, undecided.returncode)
    assert "several servers take writes" in told(undecided)
    assert (0, 0) == (accepted.returncode, made.returncode)
    assert (["kept"], []) == tuple(ask(server, "select name from account") for server in (pair.old, pair.new))


def test_a_damaged_record_is_named_and_replaced(operator: Operator, pair: Pair) -> None:
    """With several hosts nobody guesses; accepting one writes it anew."""
    operator.settings.update(database=pair.url, engines="fake")
    serve_a_moment(operator)
    record = operator.folder / "blobs" / "database.json"
    record.write_bytes(b"{")
    refused = operator("admin", "accounts", "list")
    accepted = operator("admin", "database", "accept")
    listed = operator("admin", "accounts", "list")

    assert (1, 0, 0) == (refused.returncode, accepted.returncode, listed.returncode)
    assert "database.json in the store of bytes is damaged" in told(refused)


def test_a_sqlite_file_has_no_other_copy(operator: Operator) -> None:
    refused = operator("admin", "database", "accept")

    assert 1 == refused.returncode
    assert "SQLite" in told(refused)


def test_a_copy_of_an_older_version_is_accepted_and_an_empty_one_is_not(
    operator: Operator, pair: Pair
) -> None:
    """A dump from before an upgrade was restored: it lacks what tells copies apart, and nothing migrates it
    before it is accepted. A role without rights on a table is told so (P21)."""
    operator.settings.update(database=pair.old.url(NAME), engines="fake")
    serve_a_moment(operator)
    applied = ask(pair.old, "select name from migration order by 1")
    for sql in ("drop table generation", "delete from migration where name like '0020%'"):
        pair.old.run(sql, NAME)
    refused = operator("admin", "migrate")
    accepted = operator("admin", "database", "accept")
    pair.old.run("create role clerk login", NAME)
    operator.settings.update(database=pair.old.url(NAME).replace("postgres@", "clerk@"))
    without_rights = operator("admin", "accounts", "create", "none")
    pair.old.run("create database nothing")
    operator.settings.update(database=pair.old.url("nothing"))
    empty = operator("admin", "database", "accept")

    assert "accept this copy with: tenuto admin database accept" in told(refused)
    assert (0, applied) == (accepted.returncode, ask(pair.old, "select name from migration order by 1"))
    assert (1, 1) == (without_rights.returncode, empty.returncode)
    assert "refuses us: permission denied for table" in told(without_rights)
    assert "grant it to the role" in told(without_rights)
    assert "the database is empty" in told(empty)
