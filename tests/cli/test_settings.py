"""Where settings come from, and what a wrong one, a wrong command line or a wrong place is answered."""

from pathlib import Path

import pytest

from cli.conftest import Operator
from servers.command_lines import told


def test_the_data_folder_is_an_option_or_a_variable(operator: Operator, tmp_path: Path) -> None:
    """`--data` wins over TENUTO_DATA; both are made when they are not there, for their owner alone."""
    operator("admin", "accounts", "create", "by variable")
    operator("admin", "accounts", "create", "by option", "--data", str(tmp_path / "other"))

    assert ["by variable"] == [line["name"] for line in operator.json("admin", "accounts", "list")]
    assert ["by option"] == [
        line["name"] for line in operator.json("admin", "accounts", "list", "--data", str(tmp_path / "other"))
    ]
    assert 0o700 == (tmp_path / "other").stat().st_mode & 0o777


def test_all_wrong_settings_are_named_at_once(operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "tenuto.toml"
    file.write_text('colour = "red"\nport = 70001\n[models."hexgrad/Kokoro-82M"]\ndepth = 1\n')
    done = operator("serve", "--port", "99999", "--config", str(file), engines="tin", no_such="1")
    first, *wrong = done.stderr.splitlines()

    assert (1, "", "tenuto: settings are wrong:") == (done.returncode, done.stdout, first)
    named = (f"{file}: colour:", "TENUTO_NO_SUCH:", 'models."hexgrad/Kokoro-82M".depth:', "engines:", "port:")
    assert [] == [line for line in wrong if not line.startswith(tuple(f"  {name}" for name in named))]
    assert [] == [name for name in named if not any(line.startswith(f"  {name}") for line in wrong)]
    assert "99999" in done.stderr and "70001" not in done.stderr
    assert not operator.folder.exists()


def test_a_place_that_cannot_be_used_is_told_in_one_line(operator: Operator, tmp_path: Path) -> None:
    """No traceback for a folder that is a file, a database that is away or none, certificates that are none;
    of a password that is not escaped, which libpq takes for a port, nothing is repeated.
    """
    (tmp_path / "file").touch()
    (tmp_path / "none.db").write_text("This is no database." * 100)
    away = operator("admin", "accounts", "list", database="postgresql://127.0.0.1:1/tenuto")
    slip = operator("admin", "accounts", "list", database="postgresql://127.0.0.1:secret/more@host/tenuto")
    none = operator("admin", "accounts", "list", database=f"sqlite:///{tmp_path / 'none.db'}")
    store = {"blobs": "s3://tenuto", "s3_endpoint": "https://127.0.0.1:1", "s3_ca_file": "none.db"}
    with pytest.MonkeyPatch.context() as keys:
        keys.setenv("AWS_ACCESS_KEY_ID", "key")
        keys.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        no_certificate = operator("api", "--port", "0", **store)
    file = operator("admin", "accounts", "list", "--data", str(tmp_path / "file"))

    assert "the database does not answer: Connection refused; start it" in told(away)
    assert "its port is not a number" in told(slip)
    assert "secret" not in told(slip)
    assert "cannot be read as PEM" in told(no_certificate)
    assert "file is not a database" in told(none)
    assert "cannot be the data folder: File exists; choose another with --data" in told(file)
    assert {1} == {done.returncode for done in (away, slip, none, no_certificate, file)}
