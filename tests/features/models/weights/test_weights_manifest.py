"""The manifest of weights: what ships is complete, and what is wrong does not load."""

import subprocess
from pathlib import Path

import pytest

from tenuto.errors import OperatorError
from tenuto.features.models.cache import default_cache
from tenuto.features.models.manifest import Manifest, shipped

HEAD = '[carriers]\nbox = { registry = "pypi", version = "1.0", size_bytes = 1 }\n'
HASH = "0" * 64
ENGINES = sorted((Path(__file__).parents[4] / "engines").glob("*/src/*/engine.toml"))
GOOD = f"""
[[weight]]
name = "model"
licence = "MIT"
upstream = "here"
revision = "1"

[[weight.source]]
from = "carrier"
parts = [{{ carrier = "box", member = "box/{{file}}" }}]

[weight.files]
"a/b.bin" = {{ size_bytes = 1, sha256 = "{HASH}" }}
"""


def test_the_manifests_of_our_engines_pin_every_file() -> None:
    """Each weight says its licence, its origin and how each of its files is assembled."""
    manifest = shipped()

    assert 54 == len(manifest.weights["kokoro-voices"].files)
    assert 92_361_271 == manifest.weights["kokoro-v1.0-int8.onnx"].size_bytes
    assert all(weight.licence and weight.upstream and weight.revision for weight in manifest.weights.values())


def test_a_weight_of_two_engines_is_the_same_in_both() -> None:
    found = [weight for path in ENGINES for weight in Manifest.load(path).weights.values()]
    names = [weight.name for weight in found]

    assert [] == [one.name for one in found if one != next(each for each in found if each.name == one.name)]
    assert len(names) > len({*names})


def test_a_folder_is_named_by_the_hash_of_its_listing(tmp_path: Path) -> None:
    listing = subprocess.run(["sha256sum"], input=f"{HASH}  a/b.bin\n".encode(), capture_output=True).stdout

    weight = _load(tmp_path, GOOD).weights["model"]

    assert listing.decode().split()[0] == weight.sha256


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"a/b.bin"', '"../b.bin"', "regex"),
        ('"a/b.bin"', '"/b.bin"', "regex"),
        ('"a/b.bin"', '"a/.hidden"', "regex"),
        ('name = "model"', 'name = ".partial"', "regex"),
        ('name = "model"', 'name = "a/b"', "regex"),
        (f'"{HASH}"', '"abc"', "regex"),
        ('carrier = "box"', 'carrier = "-r"', "regex"),
        ('carrier = "box"', 'carrier = "other"', "not listed"),
        ('from = "carrier"', 'from = "elsewhere"', "elsewhere"),
        ('licence = "MIT"', 'licence = "MIT"\nlicense = "MIT"', "license"),
        ('licence = "MIT"', "", "licence"),
        ("[weight.files]", f'[weight.file]\nsize_bytes = 1\nsha256 = "{HASH}"\n[weight.files]', "either"),
        ('parts = [{ carrier = "box", member = "box/{file}" }]', "", "assembled from"),
    ],
)
def test_what_is_wrong_does_not_load(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    """Names that could leave the cache or become options, unknown carriers and keys: all are refused."""
    assert right in GOOD

    with pytest.raises(OperatorError, match=said):
        _load(tmp_path, GOOD.replace(right, wrong))


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TENUTO_CACHE first, then XDG_CACHE_HOME, then ~/.cache."""
    monkeypatch.setenv("TENUTO_CACHE", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    first = default_cache()
    monkeypatch.delenv("TENUTO_CACHE")
    second = default_cache()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    third = default_cache()

    assert [tmp_path / "a", tmp_path / "b/tenuto", tmp_path / ".cache/tenuto"] == [first, second, third]


def _load(folder: Path, text: str) -> Manifest:
    path = folder / "manifest.toml"
    path.write_text(HEAD + text)
    return Manifest.load(path)
