"""What the release workflow asks of the checkout: is this tag the version, and what are its notes?

    python scripts/release.py check v0.1.0     # exit code 1 and a sentence for each thing that is not ready
    python scripts/release.py notes v0.1.0     # the section of CHANGELOG.md, on stdout

It needs Python alone, so that the workflow can ask before anything is installed.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USAGE = "Usage: python scripts/release.py check|notes vX.Y.Z"


def main() -> None:
    """Run the command."""
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "notes"):
        sys.exit(USAGE)
    version = sys.argv[2].removeprefix("v")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if sys.argv[1] == "notes":
        print(section(changelog, version)[1])
    elif problems := not_ready(versions(ROOT), changelog, version):
        sys.exit("\n".join(problems))


def versions(root: Path) -> dict[str, str]:
    """The version of each distribution, by its name."""
    files = [
        path
        for folder in ("packages", "engines", "contrib")
        for path in root.glob(f"{folder}/*/pyproject.toml")
    ]
    projects = [tomllib.loads(path.read_text("utf-8"))["project"] for path in files]
    return {project["name"]: project["version"] for project in projects}


def not_ready(distributions: dict[str, str], changelog: str, version: str) -> list[str]:
    """What keeps a version from being released, a sentence for each."""
    problems = [
        f"{name} has the version {its}: change it to {version} in its pyproject.toml."
        for name, its in sorted(distributions.items())
        if its != version
    ]
    date, notes = section(changelog, version)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        problems.append(f"CHANGELOG.md has no date for {version}: write '## [{version}] - YYYY-MM-DD'.")
    if not notes:
        problems.append(f"CHANGELOG.md has no notes for {version}: say what is new.")
    return problems


def section(changelog: str, version: str) -> tuple[str, str]:
    """What follows a version in its heading, and the text below it; both empty where there is none."""
    found = re.search(rf"^## \[{re.escape(version)}\] - ([^\n]*)\n(.*?)(?=^## \[|\Z)", changelog, re.M | re.S)
    return (found[1].strip(), found[2].strip()) if found else ("", "")


if __name__ == "__main__":
    main()
