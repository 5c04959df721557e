"""What each distribution says it needs: what it imports, within bounds that our locks keep to."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FOLDERS = [
    path.parent
    for part in ("packages", "engines", "contrib")
    for path in sorted(ROOT.glob(f"{part}/*/pyproject.toml"))
]
PROVIDERS = packages_distributions()
LOCKED = re.compile(r"^([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)", re.MULTILINE)
VERSIONS = {
    (canonicalize_name(name), version)
    for lock in (ROOT / "requirements").glob("*.*")
    if not lock.name.startswith("race")  # of peers, in environments that none of ours is in
    for name, version in LOCKED.findall(lock.read_text("utf-8"))
}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_dependency_has_both_bounds_and_the_locked_version_is_within(folder: Path) -> None:
    """What was tested is what is allowed, and a release that nobody has tried is not taken in silence."""
    for needed in requirements(folder):
        bounds = {one.operator for one in needed.specifier}
        locked = [version for name, version in VERSIONS if name == canonicalize_name(needed.name)]

        assert {">=", "<"} == bounds, f"{needed} has no lower or no upper bound"
        assert all(needed.specifier.contains(version, prereleases=True) for version in locked), (
            needed,
            locked,
        )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_a_distribution_imports_is_what_it_depends_on(folder: Path) -> None:
    """An extra counts, for what is imported where it is used. What is not installed here says nothing."""
    named = {canonicalize_name(needed.name) for needed in requirements(folder)}
    own = {path.name for path in (folder / "src").iterdir()}
    imported = {module for module in modules(folder) if module in PROVIDERS and module not in own}
    lacking = {
        module for module in imported if not named & {canonicalize_name(name) for name in PROVIDERS[module]}
    }

    assert lacking <= TOLERATED.get(folder.name, set())


def test_there_is_one_version_and_all_that_name_it_agree() -> None:
    """Distributions, interface and image; and each of ours takes the others of that version."""
    versions = {folder.name: project_of(folder)["version"] for folder in FOLDERS}
    (version,) = set(versions.values())
    ours = {project_of(folder)["name"] for folder in FOLDERS}
    own = [needed for folder in FOLDERS for needed in requirements(folder) if needed.name in ours]
    interface = yaml.safe_load((ROOT / "openapi.yaml").read_text("utf-8"))["info"]["version"]
    images = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text("utf-8"))["images"]

    assert {version} == {interface, *(image["newTag"] for image in images if image["name"] == "tenuto")}
    assert all(needed.specifier.contains(version) for needed in own)


def test_the_makefile_and_the_image_install_every_distribution() -> None:
    """And nothing else but the client for JavaScript: an engine that is not installed is not offered."""
    ours = {folder.relative_to(ROOT).as_posix() for folder in FOLDERS}
    for name in ("Makefile", "deploy/container/Containerfile"):
        text = (ROOT / name).read_text("utf-8")

        named = set(re.findall(r"\b(?:packages|engines|contrib)/[\w-]+(?=[\s\\]|$)", text))

        assert ours == named - {"packages/tenuto-js"}, name


TOLERATED = {
    # It comes with the packages that run the model.
    "indextts": {"huggingface_hub"},
}


def project_of(folder: Path) -> dict[str, Any]:
    """The table of that name."""
    table: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def requirements(folder: Path) -> list[Requirement]:
    """Those of a distribution, its extras' among them."""
    project = project_of(folder)
    extras = project.get("optional-dependencies", {}).values()
    return [Requirement(text) for texts in (project["dependencies"], *extras) for text in texts]


def modules(folder: Path) -> Iterator[str]:
    """The top-level modules that it imports, without the standard library's."""
    for path in (folder / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            tops = [name.split(".")[0] for name in names]
            yield from (name for name in tops if name not in sys.stdlib_module_names)
