"""From the wheels alone to a playable WAV, in a bare Debian with Python 3.11, as an unprivileged user.

No checkout, no make and no Node.js are there. `make fresh` does it after `make dist`.
"""

import json
import shutil
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fresh.roots import BUILD, PATH, ROOT, Inside, bare_debian, carried_settings, need

from tenuto.config import Settings

WHEELS = ROOT / "build" / "dist"
CACHE = Settings(Path("data")).cache.expanduser()
"""Weights that are here already."""
ADDRESS = "http://127.0.0.1:8080"
READ = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A user of a bare Debian that has Python, pip's settings and the wheels."""
    need("mmdebstrap", "unshare", "nsenter", "ip", "setpriv")
    if not list(WHEELS.glob("tenuto-*.whl")):
        pytest.skip("no wheels in build/dist: run `make dist` first")
    root = BUILD / "bare"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    subprocess.run(["tar", "--extract", "--file", bare_debian(), "--directory", root], check=True)
    administrator = Inside(root, network=True, variables={"DEBIAN_FRONTEND": "noninteractive"})
    administrator.run("apt-get", "update")
    administrator.run("apt-get", "install", "--yes", "--no-install-recommends", "python3-venv")
    administrator.run("useradd", "--uid", "1000", "--create-home", "person")
    settings = carried_settings(tmp_path_factory.mktemp("settings"))
    yield Inside(
        root,
        user="1000:1000",
        folder="/home/person",
        variables={"HOME": "/home/person", "PATH": f"/home/person/tenuto/bin:{PATH}"},
        mounts=settings | {WHEELS: "/wheels", CACHE: "/home/person/.cache/tenuto"},
    )
    shutil.rmtree(root)


def test_two_commands_lead_from_the_wheels_to_speech(person: Inside) -> None:
    """`pip install tenuto[cpu]`, `tenuto serve`, `tenuto say`: the studio is there, the WAV is playable."""
    connected = Inside(person.root, person.user, person.folder, person.variables, person.mounts, network=True)
    connected.run("python3", "-m", "venv", "tenuto")
    connected.run(
        *("pip", "install", "--quiet", "--no-cache-dir", "--report", "report.json"),
        *("--find-links", "/wheels", "tenuto[cpu]"),
    )
    report = json.loads((person.root / "home/person/report.json").read_text("utf-8"))
    ours = {
        each["metadata"]["name"]: each["download_info"]["url"]
        for each in report["install"]
        if each["metadata"]["name"].startswith("tenuto")
    }
    serving = person.start("tenuto", "serve", log=BUILD / "serve.log")
    try:
        serving.wait_until("python3", "-c", READ, f"{ADDRESS}/readyz")
        page = serving.beside("python3", "-c", READ, f"{ADDRESS}/")
        logged_in = serving.beside("tenuto", "login", "--local")
        spoken = serving.beside("tenuto", "say", "Hello", "-o", "hello.wav")
        status = serving.stop()
    finally:
        serving.process.kill()

    assert {"tenuto", "tenuto-client", "tenuto-engine", "tenuto-kokoro"} <= set(ours)
    assert all(url.startswith("file:///wheels/") for url in ours.values()), ours
    assert "<title>" in page.stdout
    assert ADDRESS in (BUILD / "serve.log").read_text("utf-8")
    assert (logged_in.returncode, spoken.returncode) == (0, 0), logged_in.stderr + spoken.stderr
    with wave.open(str(person.root / "home/person/hello.wav")) as sound:
        assert sound.getnframes() > sound.getframerate() / 4
    assert status == 0
