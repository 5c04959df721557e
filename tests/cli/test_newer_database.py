"""What a person sees of a database that a later version has brought up to date."""

import pytest

from cli.conftest import Operator
from servers.command_lines import told
from tenuto.db.database_opening import open_database


@pytest.mark.parametrize(
    "command",
    [("admin", "accounts", "list"), ("serve", "--port", "0")],
)
def test_a_breaking_change_of_a_later_version_is_told_in_one_line(
    operator: Operator, database_url: str, command: tuple[str, ...]
) -> None:
    """Nothing is done, the line says what to do, the exit code is 1 (P21)."""
    operator.settings.update(database=database_url, engines="fake")
    database = open_database(database_url)
    database.write(
        lambda tx: tx.run(
            "insert into migration (name, sha256, applied_at) values ('9998_breaking_drop', 'x', 0)"
        )
    )
    database.close()
    refused = operator(*command)

    assert 1 == refused.returncode
    assert (
        "The database is newer than this program: it has '9998_breaking_drop'. Install a newer version."
        == told(refused)
    )
