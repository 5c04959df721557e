"""A bare Debian, made by mmdebstrap, and programs in it, with processes, mounts and a network of their own.

What is installed in it comes through this machine's own settings of pip and npm, mounted as files.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "fresh"
SUITE = "bookworm"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
CARRIED = "/run/carried"
"""Where this machine's certificates are inside: Debian's own package writes to /etc/ssl."""
LEVELS = ("global", "user", "site", ":env:")
"""Of pip's settings, from the weakest to the strongest."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def need(*programs: str) -> None:
    """Skips the test unless it runs as root and all programs are installed."""
    lacking = [name for name in programs if shutil.which(name) is None]
    if os.getuid() != 0:
        pytest.skip("only root can make a root file system")
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)} (Debian's packages mmdebstrap and buildah)")


def bare_debian() -> Path:
    """The archive of a minimal Debian, without Python; made once in a checkout."""
    archive = BUILD / f"{SUITE}.tar"
    if not archive.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        partial = archive.with_name(f"partial-{archive.name}")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", SUITE, partial], check=True)
        partial.rename(archive)
    return archive


def carried_settings(folder: Path) -> dict[Path, str]:
    """What to mount, and where, so that pip and npm inside have this machine's indexes and certificates."""
    asked = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    found = [line.partition("=")[::2] for line in listed.splitlines()]
    # A name is the level and the option: "global.cert", ":env:.cert". The last level that has an option wins.
    found.sort(key=lambda pair: LEVELS.index(pair[0].partition(".")[0]))
    options = {name.rpartition(".")[2]: value.strip("'") for name, value in found}
    mounts = {}
    for word in (word for value in options.values() for word in value.split()):
        # The files of an index in a folder lie beside its pages.
        place = Path(word.removeprefix("file://")).parent if word.startswith("file://") else Path(word)
        if place.is_absolute() and place.is_dir():
            mounts[place] = str(place)
    npm = [f"registry={registry}"] if (registry := _npm("registry")) else []
    if AUTHORITIES.exists():
        mounts[AUTHORITIES] = f"{CARRIED}/authorities.crt"
        options["cert"] = f"{CARRIED}/authorities.crt"
        npm.append(f"cafile={CARRIED}/authorities.crt")
    pip = folder / "pip.conf"
    pip.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
    (folder / "npmrc").write_text("\n".join(npm) + "\n")
    return mounts | {pip: "/etc/pip.conf", folder / "npmrc": "/usr/local/etc/npmrc"}


def _npm(name: str) -> str:
    """One of npm's settings, or nothing without npm."""
    npm = shutil.which("npm")
    return (
        ""
        if npm is None
        else subprocess.run([npm, "config", "get", name], capture_output=True, text=True).stdout.strip()
    )


@dataclass
class Inside:
    """A root file system and how its programs run: as which user, where, with which variables and folders."""

    root: Path
    user: str = "0:0"
    folder: str = "/"
    variables: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[Path, str] = field(default_factory=dict)
    read_only: bool = False
    network: bool = False
    """The machine's own; otherwise a loopback interface of its own and nothing else."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that runs `words` inside, as process 1; all mounts go when it ends."""
        steps = [f"mount --bind {self.root} {self.root}", f"cd {self.root}"]
        steps += [f"mount --rbind /dev {self.root}/dev", f"mount -t tmpfs tmpfs {self.root}/tmp"]
        for source, target in self.mounts.items():
            place = f"{self.root}{target}"
            made = f"mkdir -p {place}" if source.is_dir() else f"mkdir -p $(dirname {place}) && touch {place}"
            steps += [made, f"mount --bind {source} {place}"]
        steps += [f"mount -t proc proc {self.root}/proc"]
        steps += [f"mount -o remount,bind,ro {self.root}"] if self.read_only else []
        steps += [f"cp /etc/resolv.conf {self.root}/etc/"] if self.network else ["ip link set lo up"]
        steps += ['exec "$@"']
        apart = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            *([] if self.network else ["--net"]),
        ]
        return [*apart, "sh", "-euc", "\n".join(steps), "sh", *self._entered(str(self.root)), *words]

    def _entered(self, root: str) -> list[str]:
        given = {"PATH": PATH, **self.variables}
        pairs = [f"{name}={value}" for name, value in given.items()]
        limits = ["setpriv", "--no-new-privs", "chroot", f"--userspec={self.user}"]
        # `env` of the root itself changes the folder, after the root has changed.
        return [*limits, root, "env", "-i", f"--chdir={self.folder}", *pairs]

    def run(self, *words: str, timeout_s: float = 600) -> str:
        """The output of a program that must succeed."""
        done = subprocess.run(
            self.command(words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-3000:]}"
        return done.stdout

    def start(self, *words: str, log: Path) -> "Started":
        """A program that keeps running; what it writes goes to `log`."""
        with log.open("wb") as stream:
            process = subprocess.Popen(self.command(words), stdout=stream, stderr=subprocess.STDOUT)
        return Started(self, process, log)


@dataclass
class Started:
    """A running program inside, and others beside it, as `docker exec` starts them."""

    inside: Inside
    process: "subprocess.Popen[bytes]"
    log: Path

    def pid(self) -> int:
        """The program's process as this machine numbers it; waits until there is one."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        while not (found := children.read_text().split()):
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.01)
        return int(found[0])

    def beside(self, *words: str, timeout_s: float = 120) -> "subprocess.CompletedProcess[str]":
        """A program in the same root, with the same mounts, network, user and variables."""
        target = str(self.pid())
        joined = ["nsenter", "--target", target, "--mount", "--pid", "--net"]
        command = [*joined, *self.inside._entered(str(self.inside.root)), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)

    def wait_until(self, *words: str, patience_s: float = 120) -> float:
        """Runs a program beside it until that succeeds; returns the seconds that this took."""
        began = time.monotonic()
        while True:
            assert self.process.poll() is None, self.log.read_text("utf-8")[-3000:]
            if self.beside(*words).returncode == 0:
                return time.monotonic() - began
            assert time.monotonic() - began < patience_s, self.log.read_text("utf-8")[-3000:]
            time.sleep(0.2)

    def stop(self, patience_s: float = 75) -> int:
        """SIGTERM to the program itself; its exit status."""
        os.kill(self.pid(), signal.SIGTERM)
        return self.process.wait(patience_s)
