"""The container image, really built and run, without Docker and without a registry: `make fresh` does it.

buildah executes every step of the Containerfile. Its base images are made here: a bare Debian, and the same
with this machine's Node.js. What comes out runs as its own configuration says, on a read-only root without a
network.
"""

import json
import shutil
import subprocess
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from lab.fresh.roots import BUILD, ROOT, Inside, Started, bare_debian, carried_settings, need

from tenuto.config import Settings

IMAGES = ROOT / "deploy" / "container"
NAME = f"tenuto:{version('tenuto')}"
DEBIAN, NODE = "docker.io/library/debian:bookworm-slim", "docker.io/library/node:22-bookworm-slim"
CACHE = Settings(Path("data")).cache.expanduser()
"""Weights that are here already: the image downloads into a volume, which is tested elsewhere."""


@dataclass
class Image:
    """A built image: its configuration, and its file system mounted."""

    config: dict[str, Any]
    root: Path

    def inside(self, data: Path) -> Inside:
        """As its configuration says, with its volumes mounted and its root read-only."""
        variables = dict(pair.split("=", 1) for pair in self.config["Env"])
        return Inside(
            self.root,
            user=self.config["User"],
            folder=self.config["WorkingDir"],
            variables=variables | {"HOME": "/var/lib/tenuto"},
            mounts={data: "/var/lib/tenuto", CACHE: "/var/cache/tenuto"},
            read_only=True,
        )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """Every step of the Containerfile, executed."""
    need("mmdebstrap", "buildah", "unshare", "nsenter", "ip", "setpriv", "node", "npm")
    if not buildah("images", "--quiet", "--filter", f"reference={DEBIAN}"):
        make_bases()
    settings = carried_settings(tmp_path_factory.mktemp("settings"))
    volumes = [word for source, target in settings.items() for word in ("--volume", f"{source}:{target}:ro")]
    buildah(
        *("build", "--isolation", "chroot", "--format", "docker", "--pull=never", "--layers=false"),
        *("--ignorefile", str(IMAGES / "Containerfile.dockerignore"), *volumes),
        *("--file", str(IMAGES / "Containerfile"), "--tag", NAME, str(ROOT)),
    )
    config = json.loads(buildah("inspect", "--type", "image", NAME))["Docker"]["config"]
    container = buildah("from", "--pull=never", NAME)
    try:
        yield Image(config, Path(buildah("mount", container)))
    finally:
        buildah("rm", container)
        buildah("rmi", NAME)


@pytest.fixture(scope="module")
def serving(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """The image's own command, until its own health check succeeds."""
    data = tmp_path_factory.mktemp("data")
    user, group = image.config["User"].split(":")
    shutil.chown(data, int(user), int(group))
    started = image.inside(data).start(
        *image.config["Entrypoint"], *image.config["Cmd"], log=data.with_name("serve.log")
    )
    try:
        started.wait_until(*image.config["Healthcheck"]["Test"][1:])
        yield started
    finally:
        started.process.kill()
        started.process.wait()


def make_bases() -> None:
    """The images that the Containerfile begins with, by their names."""
    bare = buildah("from", "scratch")
    buildah("add", "--quiet", bare, str(bare_debian()), "/")
    buildah("commit", "--quiet", bare, DEBIAN)
    node, npm = (Path(shutil.which(name) or "").resolve() for name in ("node", "npm"))
    buildah("copy", "--quiet", bare, str(node), "/usr/local/bin/node")
    buildah("copy", "--quiet", bare, str(npm.parents[1]), "/usr/local/lib/node_modules/npm")
    link = ("ln", "-s", "../lib/node_modules/npm/bin/npm-cli.js", "/usr/local/bin/npm")
    buildah("run", "--isolation", "chroot", bare, "--", *link)
    buildah("commit", "--quiet", "--rm", bare, NODE)


def buildah(*words: str) -> str:
    """What it prints, with its storage in the checkout's own folder."""
    store = ("--root", str(BUILD / "images"), "--runroot", str(BUILD / "run"))
    done = subprocess.run(["buildah", *store, *words], capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout.strip()


def test_the_image_holds_what_serving_needs_and_nothing_else(image: Image) -> None:
    """No weights, no compiler, no npm; a user of its own; ffmpeg as a program, not as a Python package."""
    packages = Path(image.root, "opt", "tenuto", "lib", "python3.11", "site-packages")
    programs = {path.name for folder in ("bin", "usr/local/bin") for path in (image.root / folder).iterdir()}
    programs |= {path.name for path in (image.root / "usr" / "bin").iterdir()}

    assert image.config["User"] == "10001:10001"
    assert {"/var/lib/tenuto", "/var/cache/tenuto"} == set(image.config["Volumes"])
    assert list((image.root / "var/cache/tenuto").iterdir()) == []
    assert version("tenuto") == image.config["Labels"]["org.opencontainers.image.version"]
    assert (packages / "tenuto/features/studio/static/index.html").is_file()
    assert "ffmpeg" in programs
    assert not programs & {"node", "npm", "gcc", "cc", "curl", "wget"}
    assert list(packages.glob("*ffmpeg*")) == []


def test_its_command_serves_and_its_health_check_notices(serving: Started, image: Image) -> None:
    """On a read-only root, without rights or a network; a caller's verb makes a playable WAV."""
    account = serving.beside("tenuto", "admin", "accounts", "create", "me")
    key = serving.beside("tenuto", "admin", "keys", "create", "--account", "me").stdout.strip()
    spoken = serving.beside(
        *("env", "TENUTO_BASE_URL=http://127.0.0.1:8080", f"TENUTO_API_KEY={key}"),
        *("tenuto", "say", "Hello", "-o", "/var/lib/tenuto/hello.wav"),
    )
    read_only = serving.beside("touch", "/usr/x")
    converted = serving.beside("ffmpeg", "-v", "error", "-i", "hello.wav", "hello.ogg")
    [data] = [source for source, target in serving.inside.mounts.items() if target == "/var/lib/tenuto"]

    assert account.returncode == 0, account.stderr
    assert spoken.returncode == 0, spoken.stderr
    with wave.open(str(data / "hello.wav")) as sound:
        assert sound.getnframes() > sound.getframerate() / 4
    assert converted.returncode == 0, converted.stderr
    assert "Read-only file system" in read_only.stderr


def test_sigterm_stops_it_in_order(serving: Started, image: Image) -> None:
    """As process 1 of its container, within the grace that Compose gives; then the health check fails."""
    status = serving.stop()

    assert status == 0
