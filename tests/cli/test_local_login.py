"""The first minute of a caller on the machine where their own `tenuto serve` runs: no key to copy."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import run
from servers.postgres import PostgresServer
from servers.service import TENUTO, RunningService
from servers.terminals import at_a_terminal

pytestmark = pytest.mark.variant("database", only="postgresql")

LOGGED_OUT = 4


@pytest.fixture
def own(home: Path, tmp_path: Path) -> Iterator[RunningService]:
    service = RunningService(tmp_path / "data")
    service.start()
    yield service
    assert service.process is not None
    if service.process.poll() is None:
        service.stop()


def test_on_a_terminal_a_verb_asks_once_and_then_works(
    own: RunningService, home: Path, tmp_path: Path
) -> None:
    refused, told = at_a_terminal(b"n\n", "say", "Hello", folder=tmp_path)
    script = run("say", "Hello")
    before = own.command_json("admin", "accounts", "list"), (home / ".config").exists()
    code, shown = at_a_terminal(b"\n", "say", "Hello", "-o", "hello.wav", folder=tmp_path)
    again, quietly = at_a_terminal(b"", "say", "Hello again", "-o", "again.wav", folder=tmp_path)
    accounts = own.command_json("admin", "accounts", "list")
    line = f"tenuto: no API key: a service of yours runs at {own.url} → tenuto login --local\n"

    assert (LOGGED_OUT, LOGGED_OUT, "", line) == (refused, script.returncode, script.stdout, script.stderr)
    assert line.strip() in told.replace("\r", "") and ([], False) == before
    assert f"Your service runs at {own.url}, with its data in {own.folder}. Log in to it? [Y/n]" in shown
    assert (0, 0) == (code, again) and "[Y/n]" not in quietly
    assert [b"RIFF", b"RIFF"] == [(tmp_path / name).read_bytes()[:4] for name in ("hello.wav", "again.wav")]
    assert ["20.000000"] == [account["available"] for account in accounts]


def test_a_login_is_the_operators_account_and_logging_out_revokes_its_key(own: RunningService) -> None:
    own.command("admin", "accounts", "create", "mine", "--credit", "3")
    made = run("login", "--local")
    listed = run("login", "--list").stdout.splitlines()
    [key] = own.command_json("admin", "keys", "list")
    ended = run("logout")
    [revoked] = own.command_json("admin", "keys", "list")

    left = run("login", "--list").stdout
    own.command("admin", "accounts", "create", "other")
    second = run("login", "--local")

    assert 0 == made.returncode and f"logged in to {own.url} as mine; " in made.stderr
    assert 1 == second.returncode
    assert "several accounts and no operator; create a key with `tenuto admin keys create" in second.stderr
    assert "command line" == key["name"] and key["revoked"] is None and revoked["revoked"] is not None
    assert re.fullmatch(rf"{own.url}\ttn_.{{3}}….{{4}}\tyes", listed[1])
    assert (0, "service\tkey\tdefault\n") == (ended.returncode, left)


def test_an_operators_command_in_another_folder_makes_nothing(own: RunningService, tmp_path: Path) -> None:
    """The service would not know its account and key. The folder that it names is the right one."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    words = ("accounts", "invite", "me")
    refused = run("admin", *words, folder=elsewhere)
    [named] = re.findall(r"--data (.*)\n", refused.stderr)

    assert 1 == refused.returncode
    assert f"there is no Tenuto data in {elsewhere}/tenuto-data; a service of yours has its" in refused.stderr
    assert ([], str(own.folder)) == (list(elsewhere.iterdir()), named)
    assert 0 == run("admin", *words, "--data", named, folder=elsewhere).returncode


def test_only_a_live_service_of_this_user_counts(own: RunningService, home: Path) -> None:
    """Killed, a folder or a note of everybody's, another machine's note, a damaged one: as if none."""
    [note] = (home / ".local/state/tenuto/services").iterdir()
    text, none = (
        note.read_text(),
        "tenuto: no API key: no service of yours runs on this machine → tenuto serve\n",
    )
    for content, folder_mode, mode in (
        (text.replace('"machine": "', '"machine": "other-'), 0o700, 0o600),
        ("{", 0o700, 0o600),
        (text, 0o777, 0o600),
        (text, 0o700, 0o666),
    ):
        note.write_text(content)
        own.folder.chmod(folder_mode)
        note.chmod(mode)

        assert none == run("login", "--local").stderr
    note.chmod(0o600)
    alive = run("balance").stderr
    own.kill()

    assert "→ tenuto login --local" in alive
    assert "tenuto: no API key: no key for http://127.0.0.1:8080: run" in run("balance").stderr


def test_of_two_services_none_is_taken_and_a_named_one_is(own: RunningService, tmp_path: Path) -> None:
    other = RunningService(tmp_path / "other")
    other.start()
    both = run("say", "Hello")
    elsewhere = run("say", "Hello", TENUTO_BASE_URL="http://127.0.0.1:9")
    chosen = run("login", "--local", other.url)
    other.stop()

    assert f"several services of yours run here: {', '.join(sorted((own.url, other.url)))}" in both.stderr
    assert "no key for http://127.0.0.1:9" in elsewhere.stderr
    assert 0 == chosen.returncode and other.url in run("login", "--list").stdout


def test_a_service_on_postgresql_offers_no_login(
    home: Path, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    """Who may start it need not be who administers its database: a key is made as for anybody."""
    postgres_server.run(f'create database "{tmp_path.name}"')
    service = RunningService(tmp_path / "data", postgres_server.url(tmp_path.name))
    service.start()
    done = run("login", "--local")
    service.stop()

    assert (LOGGED_OUT, True) == (done.returncode, "no service of yours runs" in done.stderr)


def test_without_arguments_tenuto_shows_what_is_and_what_comes_next(
    home: Path, tmp_path: Path, own: RunningService
) -> None:

    def shown(**variables: str) -> str:
        done = subprocess.run([TENUTO], env=os.environ | variables, capture_output=True, text=True)
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout

    nothing = shown(HOME=str(tmp_path / "nobody"), XDG_STATE_HOME=str(tmp_path / "nobody"))
    before = shown()
    run("login", "--local")
    after = shown()
    own.stop()
    stopped = shown()

    assert f"service:  yours runs at {own.url}, with its data in {own.folder}\nlogin:    none yet\n" in before
    assert re.search(rf"^login:    {own.url} with the key tn_...…....$", after, re.MULTILINE)
    assert "\nmodels:   7 of 7 ready\n" in after
    assert '\n  tenuto say "Hello" -o hello.wav  turn text into speech\n' in before
    assert "\n  tenuto serve  " in nothing and not (tmp_path / "nobody").exists()
    assert "none of yours runs" in stopped and "models:   the service does not answer" in stopped
