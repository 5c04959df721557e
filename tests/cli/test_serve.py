"""`tenuto serve`: what it says, does and leaves, and where its settings come from."""

import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from structlog.testing import capture_logs

from cli.conftest import Operator
from servers.command_lines import told
from servers.service import TENUTO
from tenuto.process import data_opening

Start = Callable[..., subprocess.Popen[str]]
WAIT_S = 120.0


@pytest.fixture
def start(operator: Operator) -> Iterator[Start]:
    """Starts long-running commands; what still runs at the end is stopped."""
    running: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **settings: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [TENUTO, *arguments],
            env=operator.environment(**settings) | {"PATH": os.environ["PATH"]},
            cwd=operator.folder.parent,
            stdout=subprocess.PIPE,
            stderr=(operator.folder.parent / f"{arguments[0]}.log").open("a"),
            text=True,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        if process.poll() is None:
            stop(process)


def test_serve_says_where_it_is_and_the_first_time_how_to_begin(
    operator: Operator, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Address, data folder, the link that sets the studio up, and the command that tries it.

    A second service on the folder is refused meanwhile. With an account there is no hint any more; the link,
    a new one, is there until somebody has used one.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = start("serve", "--port", "0", "--engines", "fake", "--host", "127.0.0.1")
    said = lines(first, 4)
    url = address(said[0])
    command, *line = shlex.split(said[3].removeprefix("To try it, in another terminal: "))
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    asked = subprocess.run([command, *line], env=environment, capture_output=True, text=True)
    subprocess.run([command, "login", "--local"], env=environment, capture_output=True, check=True)
    second = operator("serve", "--port", "0", engines="fake")
    alive = httpx2.get(f"{url}/livez").status_code
    code = stop(first)
    again = start("serve", "--port", "0", "--engines", "fake")
    later = lines(again, 3)
    stop(again)

    assert f"Tenuto answers at {url}, its data is in {operator.folder}" == said[0]
    assert said[1].startswith("To set up the studio, open this link; ") and said[1] == later[1]
    assert re.fullmatch(rf"  {url}/setup#[\w-]{{43}}", said[2])
    assert said[2].partition("#")[2] != later[2].partition("#")[2]
    assert ["say", "Hello"] == line
    assert f"a service of yours runs at {url} → tenuto login --local\n" in asked.stderr
    assert f"is in use by another `tenuto serve` (pid {first.pid}" in told(second)
    assert (1, 200, 0) == (second.returncode, alive, code)
    assert again.stdout is not None and "" == again.stdout.read()


@pytest.fixture
def lameenc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that commands load in place of a library."""
    folder = tmp_path / "instead"
    folder.mkdir()
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    return folder / "lameenc.py"


def test_a_process_that_cannot_load_what_renditions_need_stops(
    operator: Operator, start: Start, lameenc: Path
) -> None:
    """Its supervisor restarts it: a failed import of numpy cannot be retried in the same process."""
    lameenc.write_text("raise ImportError('Too many open files')")
    code = start("serve", "--port", "0", "--engines", "fake").wait(WAIT_S)

    assert 0 == code
    assert '"reason": "Too many open files", "event": "libraries.not_loaded"' in log_of(operator)


def test_a_stop_right_after_the_start_lets_the_libraries_load(
    operator: Operator, start: Start, lameenc: Path
) -> None:
    """If Python exited during the import of soxr, which is C++, the process would end with SIGABRT."""
    lameenc.write_text(
        "import sys, time\nprint('loading', flush=True)\ntime.sleep(1)\nprint('loaded', file=sys.stderr)"
    )
    process = start("serve", "--port", "0", "--engines", "fake")
    while "loading" not in lines(process, 1)[0]:
        assert process.poll() is None

    assert 0 == stop(process)
    assert "loaded\n" in log_of(operator)


def log_of(operator: Operator) -> str:
    return (operator.folder.parent / "serve.log").read_text()


def test_a_service_runs_although_nothing_can_be_printed(operator: Operator, tmp_path: Path) -> None:
    settings = operator.environment(engines="fake", port="0")
    with (tmp_path / "log").open("w") as log, Path("/dev/full").open("w") as full:
        process = subprocess.Popen([TENUTO, "serve"], env=settings, stdout=full, stderr=log)
    try:
        until(lambda: "output.not_written" in (tmp_path / "log").read_text() or process.poll() is not None)
        signed = (operator.folder / "serve.lock").read_text().strip().partition(", ")[2]
        answer = httpx2.get(f"http://{signed}/livez")
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(WAIT_S)

    assert (200, 0) == (answer.status_code, code)


def test_what_cannot_be_served_is_refused_before_anything_is_made(operator: Operator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        taken = operator("serve", "--port", port, engines="fake")
    nowhere = operator("serve", host="host.invalid", engines="fake")
    fake = operator("worker", "--models", "fake/speech")

    name = Path("/proc/self/comm").read_text().strip()
    assert f"Address already in use by {name} (pid {os.getpid()});" in told(taken)
    assert told(nowhere).startswith("cannot listen on host.invalid:8080: ")
    assert told(fake).startswith("there is no model fake/speech; there are hexgrad/Kokoro-82M, ")
    assert (1, 1, 1) == (taken.returncode, nowhere.returncode, fake.returncode)
    assert not operator.folder.exists()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


def address(line: str) -> str:
    found = re.search(r"http://[^,\s]+", line)
    assert found, line
    return found[0]


def stop(process: subprocess.Popen[str]) -> int:
    """SIGTERM, and the exit code."""
    process.send_signal(signal.SIGTERM)
    return process.wait(WAIT_S)


def until(holds: Callable[[], bool]) -> None:
    """Ask until it holds: what another process does has no signal to wait for."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_service_on_a_nearly_full_disk_says_so_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what there is and what is needed; it starts all the same, for erasing needs the service, too."""
    logged = []
    for free in (1 << 30, (1 << 30) - 1):
        monkeypatch.setattr("shutil.disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        with capture_logs() as logs:
            data_opening.warn_of_little_space(tmp_path)
        logged.append([(line["event"], line["free_mib"], line["needed_mib"]) for line in logs])

    assert [[], [("disk.low", 1023, 1024)]] == logged


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
    other = tmp_path / "other"
    assert 0 == operator("admin", "accounts", "create", "me", "--data", str(other)).returncode
    assert (0o700, False) == (other.stat().st_mode & 0o777, operator.folder.exists())


def test_a_place_that_cannot_be_used_is_told_in_one_line(operator: Operator, tmp_path: Path) -> None:
    """No traceback for a folder that is a file, or a database that is away or none."""
    (tmp_path / "file").touch()
    (tmp_path / "none.db").write_text("This is no database." * 100)
    away = operator("admin", "accounts", "list", database="postgresql://127.0.0.1:1/tenuto")
    none = operator("admin", "accounts", "list", database=f"sqlite:///{tmp_path / 'none.db'}")
    file = operator("admin", "accounts", "list", "--data", str(tmp_path / "file"))

    assert "the database does not answer: Connection refused; start it" in told(away)
    assert "file is not a database" in told(none)
    assert "cannot be the data folder: File exists; choose another with --data" in told(file)
    assert {1} == {done.returncode for done in (away, none, file)}
