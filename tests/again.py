"""A pytest plugin: a test that failed runs once more, alone, and counts as flaky if it passes then.

`make test` and `make test-all` load it. When all tests have run and their processes have ended, each
failed one runs in a new pytest. What passes there is printed as `FLAKY name`, with its first failure, and
counts as passed.

Some failures stand: those of tests about money, records and crashes, where what happens once in a hundred
runs is the defect; those of a process that died; and all if more than `MOST_FLAKY` tests are flaky.
"""

import subprocess
import sys
from collections.abc import Iterable

import pytest
from _pytest.terminal import TerminalReporter

STANDING = ("crash", "db", "job", "money", "properties", "simulation")
"""Folders of tests of which no failure is repeated."""
STANDING_FILES = frozenset(
    {"test_contract_cancel.py", "test_contract_idempotency.py", "test_contract_money.py"}
    | {"test_contract_order.py", "test_contract_prices.py"}
)
"""The contract's files about money and records."""
MOST_FLAKY = 3
MOST_REPEATED = 20
"""With more failures than that the tests found something, and to repeat them would only take time."""
_PHASES = frozenset({"setup", "call", "teardown"})
_flaky = pytest.StashKey[dict[str, list[pytest.TestReport]]]()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After the last of xdist's processes ended, and before pytest prints its summary."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or session.exitstatus != pytest.ExitCode.TESTS_FAILED:
        return
    failed = _failures(reporter)
    repeated = [name for name, reports in failed.items() if _may_pass(name, reports)]
    if not repeated or len(repeated) > MOST_REPEATED:
        return
    reporter.write_line(f"\nonce more, alone: {len(repeated)} of {len(failed)} failed tests")
    flaky = {name: failed[name] for name in repeated if _passes_alone(session.config, name)}
    session.config.stash[_flaky] = flaky
    if len(flaky) <= MOST_FLAKY:
        _count_as_passed(reporter, flaky)
        if len(flaky) == len(failed):
            session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Each flaky test, with what it failed by: its cause is to be repaired next."""
    flaky = config.stash.get(_flaky, {})
    if 0 < len(flaky) <= MOST_FLAKY:
        terminalreporter.section("first failures of flaky tests")
        for reports in flaky.values():
            for report in reports:
                terminalreporter.write_line(report.longreprtext)
    for name in flaky:
        terminalreporter.write_line(f"FLAKY {name}")
    if len(flaky) > MOST_FLAKY:
        terminalreporter.write_line(
            f"{len(flaky)} flaky tests, and {MOST_FLAKY} are allowed: their failures stand"
        )


def _failures(reporter: TerminalReporter) -> dict[str, list[pytest.TestReport]]:
    """The failed phases of each failed test. A file that cannot be collected has a phase of its own."""
    failed: dict[str, list[pytest.TestReport]] = {}
    for report in [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]:
        failed.setdefault(report.nodeid, []).append(report)
    return failed


def _may_pass(name: str, reports: Iterable[pytest.TestReport]) -> bool:
    folders = name.partition("::")[0].split("/")
    is_standing = not STANDING_FILES.isdisjoint(folders) or not set(STANDING).isdisjoint(folders[:-1])
    return not is_standing and all(report.when in _PHASES for report in reports)


def _passes_alone(config: pytest.Config, name: str) -> bool:
    command = [sys.executable, "-m", "pytest", "--durations=0", name]
    done = subprocess.run(command, cwd=config.rootpath, capture_output=True, text=True)
    return done.returncode == 0 and "1 passed" in done.stdout


def _count_as_passed(reporter: TerminalReporter, flaky: dict[str, list[pytest.TestReport]]) -> None:
    for outcome in ("failed", "error"):
        left = [report for report in reporter.stats.get(outcome, ()) if report.nodeid not in flaky]
        reporter.stats.pop(outcome, None)
        if left:
            reporter.stats[outcome] = left
    passed = reporter.stats.setdefault("passed", [])
    counted = {report.nodeid for report in passed if report.when == "call"}
    passed += [reports[0] for name, reports in flaky.items() if name not in counted]
