"""What somebody has who installs the wheels: `tenuto[cpu]`, without a checkout, make or Node.js."""

import subprocess
import sys
import tarfile
import urllib.request
import wave
from pathlib import Path
from zipfile import ZipFile

import pytest
from scripts import distributions

from alone.environment import OURS, ROOT, output, serving
from tenuto.features.models.cache import default_cache

pytestmark = pytest.mark.variant("package")

BIN = Path(sys.executable).parent
STUDIO = ROOT / distributions.STUDIO / "index.html"
EMBEDDED = {"e5", "kokoro", "whisper", "llama", "pictograms"}
EVERY_ENGINE = "import json, tenuto_engine.adapters as a; print(*a.found())"


def environment(folder: Path, bin_folder: Path) -> dict[str, str]:
    """Of a person with a home of their own, to whom nothing of this checkout is in reach."""
    return {"HOME": str(folder), "PATH": str(bin_folder), "TENUTO_CACHE": str(default_cache())}


def printed(user: Path, folder: Path, *command: str) -> str:
    """What a command of the environment prints, run in an empty folder."""
    return output([user.with_name(command[0]), *command[1:]], folder, environment(folder, user.parent))


@pytest.mark.real_engine
@pytest.mark.skipif(not STUDIO.is_file(), reason="the studio was not built: no Node.js here")
def test_who_installs_the_wheels_gets_the_studio_and_speech(user: Path, tmp_path: Path) -> None:
    """The page of the studio, and a WAV that plays, by their own commands alone."""
    with serving(user, tmp_path, environment(tmp_path, user.parent)) as address:
        with urllib.request.urlopen(address, timeout=120) as answer:
            page = answer.read()
        printed(user, tmp_path, "tenuto", "login", "--local")
        printed(user, tmp_path, "tenuto", "say", "Hello", "-o", "hello.wav")
    with wave.open(str(tmp_path / "hello.wav")) as sound:
        seconds = sound.getnframes() / sound.getframerate()

    assert STUDIO.read_bytes() == page
    assert 0.2 < seconds < 5


def test_every_embedded_engine_comes_with_the_extra(user: Path, tmp_path: Path) -> None:
    """And those that call other servers; none of the service's modules was needed to find them."""
    engines = set(printed(user, tmp_path, "python", "-c", EVERY_ENGINE).split())

    assert EMBEDDED | {"openai-speech"} <= engines


def test_an_index_would_take_every_distribution(wheels: Path) -> None:
    """Their metadata and pages are sound, and each wheel holds its own package and nothing else."""
    files = sorted(path for path in wheels.iterdir() if path.name.startswith("tenuto"))
    subprocess.run([BIN / "twine", "--no-color", "check", "--strict", *files], check=True)
    whole = [path for path in files if path.suffix == ".whl"]
    subprocess.run([BIN / "check-wheel-contents", *whole], check=True)

    assert (len(OURS), len(OURS)) == (len(whole), len(files) - len(whole))


def test_every_distribution_has_the_licence(wheels: Path) -> None:
    """And the notices that it asks to keep, in the wheel as in the source archive."""
    for path in wheels.glob("*.whl"):
        with ZipFile(path) as wheel:
            names = {Path(name).name for name in wheel.namelist() if "/licenses/" in name}

        assert {"LICENSE", "NOTICE"} == names, path.name
    for path in wheels.glob("*.tar.gz"):
        with tarfile.open(path) as archive:
            names = {Path(name).name for name in archive.getnames()}

        assert {"LICENSE", "NOTICE"} <= names, path.name


def test_a_distribution_is_the_same_bytes_whenever_it_is_built(wheels: Path, tmp_path: Path) -> None:
    distributions.build([OURS["tenuto-llama"]], tmp_path)
    again = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("tenuto")}

    assert 2 == len(again)
    assert again == {name: (wheels / name).read_bytes() for name in again}
