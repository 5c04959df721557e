"""A failed test runs once more, alone; what passes then is printed as flaky, and some failures stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIRST_TIME_ONLY = """
import os
from pathlib import Path

def test_{name}(request):
    mark = Path(__file__).with_suffix(".seen")
    was_seen = mark.exists()
    mark.touch()
    {failure}
"""
FAILS_ONCE = "assert was_seen, 'only the first time'"
ALONE = "assert was_seen and 'PYTEST_XDIST_WORKER' not in os.environ"
OPTIONS = "-q -p no:cacheprovider --disable-plugin-autoload -p xdist"
DIES_ONCE = "was_seen or os._exit(9)"
FAILS = "raise AssertionError('each time')"


@pytest.mark.parametrize(
    ("failures", "expected", "last"),
    [
        ({"web/a": FAILS_ONCE, "web/b": "pass", "web/c": ALONE}, (0, ["web/a", "web/c"]), "3 passed in"),
        (
            {"web/a": FAILS_ONCE, "web/b": FAILS, "job/c": FAILS_ONCE, "web/contract_money": FAILS_ONCE},
            (1, ["web/a"]),
            "3 failed, 1 passed in",
        ),
        ({"web/a": DIES_ONCE, "web/b": "pass"}, (1, []), "1 failed, 1 passed in"),
        (
            {f"web/{name}": FAILS_ONCE for name in "abcd"},
            (1, ["web/a", "web/b", "web/c", "web/d"]),
            "4 failed in",
        ),
    ],
    ids=["flaky", "standing", "dead process", "four flaky"],
)
def test_a_failed_test_runs_once_more(
    tmp_path: Path, failures: dict[str, str], expected: tuple[int, list[str]], last: str
) -> None:
    """The exit status, the flaky ones, and pytest's closing line, in which a flaky one has passed."""
    for name, failure in failures.items():
        folder, _, short = name.partition("/")
        (tmp_path / folder).mkdir(exist_ok=True)
        text = FIRST_TIME_ONLY.format(name=short, failure=failure)
        (tmp_path / folder / f"test_{short}.py").write_text(text, "utf-8")

    done = pytest_in(tmp_path)
    lines = done.stdout.strip().splitlines()
    names = [line.removeprefix("FLAKY ") for line in lines if line.startswith("FLAKY ")]
    flaky = sorted(name.partition(".py")[0].replace("test_", "") for name in names)

    assert expected == (done.returncode, flaky), done.stdout + done.stderr
    assert last in lines[-1]
    assert ("only the first time" in done.stdout) == (FAILS_ONCE in failures.values())


def pytest_in(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Two processes with the plugin, on the tests of this folder."""
    (folder / "pytest.ini").write_text(f"[pytest]\naddopts = {OPTIONS}\n", "utf-8")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "2", "-p", "tests.again"]
    variables["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
