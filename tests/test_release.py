"""The way to a release: its workflow says what docs/releasing.md says, and what it runs here works here."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts import release

ROOT = Path(__file__).parents[1]
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text("utf-8")) for path in ROOT.glob(".github/workflows/*.yml")
}
RELEASE = WORKFLOWS["release"]["jobs"]
VERSION = release.versions(ROOT)["tenuto"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
DATED = CHANGELOG.replace("not yet released", "2030-01-31")


def test_all_distributions_have_the_version_of_the_changelog() -> None:
    """Only the date may be missing while a version is being prepared."""
    assert [] == release.not_ready(release.versions(ROOT), DATED, VERSION)


@pytest.mark.parametrize(
    ("version", "changelog", "problem"),
    [
        ("9.9.9", DATED, "tenuto has the version"),
        (VERSION, DATED.replace("2030-01-31", "soon"), "has no date for"),
        (VERSION, f"## [{VERSION}] - 2030-01-31\n", "has no notes for"),
    ],
)
def test_what_is_not_ready_is_said_in_a_sentence(version: str, changelog: str, problem: str) -> None:
    """Another version, a section without a date, a section without text."""
    assert problem in " ".join(release.not_ready(release.versions(ROOT), changelog, version))


def test_the_notes_are_those_of_the_version_alone() -> None:
    """Neither its heading nor the section of another version."""
    both = f"{DATED}\n## [0.0.9] - 2029-01-01\n\nyesteryear\n"
    date, notes = release.section(both, VERSION)

    assert "2030-01-31" == date
    assert notes.startswith("The first release.") and "yesteryear" not in notes and "## [" not in notes


def test_the_commands_of_the_workflow_exist() -> None:
    """`make` has each target, the script answers; a wrong call gets its usage."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    runs = " ".join(step.get("run", "") for job in RELEASE.values() for step in job["steps"])
    targets = re.findall(r"\bmake (\w+)", runs)
    notes = script("notes", f"v{VERSION}")

    assert ["dist"] == targets and all(f"\n{target}:" in makefile for target in targets)
    assert {"check", "notes"} == set(re.findall(r"scripts/release\.py (\w+)", runs))
    assert (0, release.section(CHANGELOG, VERSION)[1]) == (notes.returncode, notes.stdout.strip())
    assert script("publish").stderr.strip() == release.USAGE


def test_workflows_pin_their_actions_and_hold_no_secret() -> None:
    """A version of three numbers for each action; tokens only where they are needed, none stored."""
    actions = [step["uses"] for flow in WORKFLOWS.values() for step in steps(flow) if "uses" in step]
    texts = [path.read_text("utf-8") for path in ROOT.glob(".github/workflows/*.yml")]

    assert not [action for action in actions if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", action)]
    assert not [text for text in texts if "secrets." in text or "pull_request_target" in text]
    assert {"sign", "publish"} == {name for name, job in RELEASE.items() if "id-token" in job["permissions"]}
    assert "release" == RELEASE["publish"]["environment"]


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps of all its jobs."""
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What `scripts/release.py` answers."""
    command = [sys.executable, str(ROOT / "scripts" / "release.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)
