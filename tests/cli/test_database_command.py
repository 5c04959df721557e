"""`tenuto admin database accept`, and commands that are given an outdated copy of the database."""

import re
import subprocess
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
