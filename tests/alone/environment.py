"""Environments with one distribution of ours and what it declares, as `pip install` makes them; no network.

Ours are built into wheels by `scripts/distributions.py`. What others they need, by the metadata of what is
installed here, is linked in from this environment: one distribution at a time, so that an import of anything
that nobody has declared fails.
"""

import re
import signal
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from shutil import copytree
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts import distributions

ROOT = Path(__file__).parents[2]
OURS = {
    path.parent.name if path.parents[1].name == "packages" else f"tenuto-{path.parent.name}": path.parent
    for group in ("packages", "engines", "contrib")
    for path in sorted(ROOT.glob(f"{group}/*/pyproject.toml"))
}
"""Folders by distribution."""
SITE = Path(sysconfig.get_path("purelib"))
UV = Path(sys.executable).with_name("uv")
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]


def built(names: Iterable[str], folder: Path) -> Path:
    """The folder with the wheels and source archives of these distributions, as `make dist` builds them."""
    distributions.build([OURS[name] for name in names], folder / "wheels")
    return folder / "wheels"


def installed(name: str, folder: Path, wheels: Path, *, beside: Iterable[str] = ()) -> Path:
    """The interpreter of a new environment in which `pip install NAME` has been run.

    `beside` are requirements of others: what tests need.
    """
    environment = folder / name
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = environment / "lib" / version / "site-packages"
    for one in others(name, beside):
        _link(one, packages)
    python = environment / "bin" / "python"
    offline = ["--no-index", "--find-links", str(wheels)]
    # Where a model's library is not installed here (torch), pip would look for it.
    complete = [name] if is_complete(name) else ["--no-deps", *ours(name)]
    pip = [*_PIP, "--python", str(python), "install", "--no-compile"]
    uv = [str(UV), "pip", "install", "-q", "--offline", "--no-cache", "--python", str(python)]
    _run([*(uv if UV.exists() else pip), *offline, *complete])
    return python


def installed_from_index(wanted: str, environment: Path, wheels: Path) -> Path:
    """The interpreter of a new environment in which `WANTED`, with its extras, was installed as by anybody.

    Ours come from the wheels alone; others have the locked versions, from uv's cache or an index.
    """
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    python = ["--python", str(environment / "bin" / "python")]
    limits = ["--constraint", str(constraints(wheels, environment))]
    asked, others_file = environment / "asked.in", environment / "others.txt"
    asked.write_text(wanted)
    uv = [str(UV), "pip"]
    try:
        plain = ["--quiet", "--no-annotate", "--no-header"]
        _run([*uv, "compile", *plain, *python, *limits, str(asked), "-o", str(others_file)])
        lines = others_file.read_text("utf-8").splitlines()
        others_file.write_text("\n".join(line for line in lines if "@ file:" not in line))
        _run([*uv, "install", "--quiet", "--no-deps", *python, "-r", str(others_file)])
    except AssertionError:
        # As in the Makefile: uv does not read pip's settings, which may name the only index of this machine.
        _run([*_PIP, *python, "install", *limits, wanted])
        return environment / "bin" / "python"
    own = [line.partition("@ file://")[2] for line in lines if "@ file:" in line]
    # Not into the cache: they are other files at every run of the tests.
    _run([*uv, "install", "--quiet", "--no-deps", "--no-cache", *python, *own])
    _run([*uv, "check", "--quiet", *python])
    return environment / "bin" / "python"


def constraints(wheels: Path, folder: Path) -> Path:
    """A file by which the wheels are the only source of our code, and others have the locked versions."""
    lock = (ROOT / "requirements" / "serve.txt").read_text("utf-8")
    locked = re.findall(r"^([\w.-]+(?:\[[\w,]+\])?==[\w.]+)", lock, re.MULTILINE)
    own = [f"{path.name.split('-')[0].replace('_', '-')} @ {path.as_uri()}" for path in wheels.glob("*.whl")]
    file = folder / "constraints.txt"
    file.write_text("\n".join([*(re.sub(r"\[.*\]", "", one) for one in locked), *own]) + "\n")
    return file


def is_complete(name: str) -> bool:
    """Whether everything that it declares is installed here."""
    here = {canonicalize_name(one.metadata["Name"]) for one in others(name)}
    texts = [text for one in ours(name) for text in _project(one)["dependencies"]]
    needed = {canonicalize_name(Requirement(text).name) for text in texts if _applies(Requirement(text))}
    return needed <= here | set(OURS)


def _applies(needed: Requirement) -> bool:
    return needed.marker is None or needed.marker.evaluate()


def ours(name: str) -> list[str]:
    """The distribution and those of ours that it needs."""
    found = [name]
    for one in found:
        found += [
            needed
            for text in _project(one)["dependencies"]
            if (needed := canonicalize_name(Requirement(text).name)) in OURS and needed not in found
        ]
    return found


def others(name: str, beside: Iterable[str] = ()) -> list[Distribution]:
    """The distributions of others that it declares, and theirs; those not installed here are left out."""
    waiting = [Requirement(text) for text in beside]
    for one in ours(name):
        waiting += [Requirement(text) for text in _project(one)["dependencies"]]
        asked = [Requirement(text) for two in ours(name) for text in _project(two)["dependencies"]]
        extras = {extra for needed in asked if needed.name == one for extra in needed.extras}
        optional = _project(one).get("optional-dependencies", {})
        waiting += [Requirement(text) for extra in extras for text in optional[extra]]
    found: dict[str, Distribution] = {}
    seen = set()
    while waiting:
        needed = waiting.pop()
        key = (canonicalize_name(needed.name), frozenset(needed.extras))
        if key in seen or key[0] in OURS:
            continue
        seen.add(key)
        try:
            found[key[0]] = distribution(needed.name)
        except PackageNotFoundError:
            continue
        waiting += _needed_by(found[key[0]], needed.extras)
    return list(found.values())


def _needed_by(one: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    for text in one.requires or ():
        needed = Requirement(text)
        contexts = [{"extra": extra} for extra in ("", *extras)]
        if needed.marker is None or any(needed.marker.evaluate(context) for context in contexts):
            yield needed


def _link(one: Distribution, packages: Path) -> None:
    """Link its modules, metadata and programs; a script names its interpreter, and stays where it is."""
    for path in one.files or ():
        source = Path(str(one.locate_file(path)))
        if path.parts[0] == ".." and path.parts[-2] == "bin":
            link = packages.parents[2] / "bin" / path.name
            is_program = source.is_file() and source.open("rb").read(2) != b"#!"
        else:
            link, is_program = packages / path.parts[0], path.parts[0] not in ("..", "__pycache__")
            source = SITE / path.parts[0]
        if not is_program or link.exists():
            continue
        if link.suffix == ".dist-info":  # A link would be no folder to uv.
            copytree(source, link)
        else:
            link.symlink_to(source)


def _project(name: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((OURS[name] / "pyproject.toml").read_text("utf-8"))
    project: dict[str, Any] = table["project"]
    return project


@contextmanager
def serving(python: Path, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address of `tenuto serve` of an interpreter's environment; in the end it stops in order."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [python.with_name("tenuto"), "serve", "--port", "0"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    first = next((line for line in process.stdout if "http://" in line), "")
    assert first, (folder / "log").read_text()
    yield "http://127.0.0.1:" + first.split("http://")[1].split(",")[0].rsplit(":", 1)[1].strip()
    process.send_signal(signal.SIGTERM)
    assert 0 == process.wait(60)


def output(command: list[Path | str], folder: Path, environment: dict[str, str]) -> str:
    """What a command prints in a folder; it must succeed."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
