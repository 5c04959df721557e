"""The translation of the one SQL text."""

import pytest

from tenuto.db.sql import for_postgres, for_sqlite, statements

CAST = "select a::text, ':no', \":no\" from t where x = "
STRING = "select 'it''s :no' -- :no\n, {} /* :no */"
PERCENT = "select 100 % 7 where a like '%s' and b = "
LOCK = "select a from t for update skip locked"


@pytest.mark.parametrize(
    ("sql", "text", "names"),
    [
        ("select :a, :b, :a", "select $1, $2, $1", ("a", "b")),
        (CAST + ":x", CAST + "$1", ("x",)),
        (STRING.format(":x"), STRING.format("$1"), ("x",)),
        (PERCENT + ":b_2", PERCENT + "$1", ("b_2",)),
        (LOCK, LOCK, ()),
    ],
)
def test_parameters_get_numbers(sql: str, text: str, names: tuple[str, ...]) -> None:
    """Names become numbers; casts, strings, quoted names and comments stay as they are."""

    assert (text, names) == for_postgres(sql)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("select a from t limit 1 for update", "select a from t limit 1"),
        ("select a from t FOR UPDATE OF t, u SKIP LOCKED", "select a from t"),
        ("select (select a from t for no key update nowait) + :x", "select (select a from t) + :x"),
        ("select 'for update' -- for update", "select 'for update' -- for update"),
        ("insert into t values (:a) on conflict (a) do update set b = 1", None),
    ],
)
def test_sqlite_has_no_row_locks(sql: str, text: str | None) -> None:
    """Only row locks are dropped."""

    assert (text or sql) == for_sqlite(sql)


def test_a_script_ends_statements_at_line_ends() -> None:
    """A semicolon within a line ends nothing; what only comments is no statement."""
    script = "-- first\ncreate table a (b text default ';'); \n\ninsert into a values (';x');\n-- the end;\n"

    assert ["-- first\ncreate table a (b text default ';')", "insert into a values (';x')"] == statements(
        script
    )
