"""Runs the tests of each row against the lies of `lies.py`: `python -m lab.lies [LIE or ROW …]`.

A test that names a row has to fail when the service breaks that row. Which one did, and by which lie, is
written into proved.toml, from which docs/contract.md says what is proved; a run of some lies keeps what else
stands there. All tests share the services that
one run of pytest starts, on SQLite; each test first passes without a lie, or its failure would mean nothing.
Exit code 1 when a lie is noticed by nobody.
"""

import sys
import time
import tomllib
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from lab.lies.lies import LIES
from lab.shared import ROOT

from servers import callers, lying
from servers.lying import Lie

sys.path.insert(0, str(ROOT / "scripts"))
import contract_table  # type: ignore[import-not-found]

CONTRACT = ROOT / "tests" / "contract"
PROVED = CONTRACT / "proved.toml"
LYING_WAIT_S = 5.0
"""How long a test waits for a job that a lie keeps from finishing."""


class Trial:
    """A plugin that runs the tests in its own order, once for each lie that concerns them."""

    def __init__(self, lies: Iterable[Lie]) -> None:
        self.lies = list(lies)
        self.proofs: dict[str, tuple[str, str]] = {}
        """By row: the lie, and the test that noticed it."""
        self.unnoticed: list[tuple[str, str]] = []
        self._sound: dict[str, bool] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        tests = contract_table.proofs()
        items: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            # Real engines take minutes, and break no row that others do not.
            if "postgresql" not in item.nodeid and item.get_closest_marker("real_engine") is None:
                items.setdefault(f"{item.path.name}::{item.name.partition('[')[0]}", []).append(item)
        for lie in self.lies:
            began = time.monotonic()
            for row in lie.rows.split():
                self._try(lie, row, [item for test in tests.get(row, []) for item in items.get(test, [])])
            print(f"{lie.name:45} {time.monotonic() - began:6.1f} s", flush=True)
        return True

    def _try(self, lie: Lie, row: str, items: list[pytest.Item]) -> None:
        for item in items:
            if row in self.proofs:
                return
            if self._passes(item, None) and not self._passes(item, lie):
                test = f"{item.path.name}::{item.name.partition('[')[0]}"
                self.proofs[row] = (lie.name, test)
                return
        self.unnoticed.append((row, lie.name))

    def _passes(self, item: pytest.Item, lie: Lie | None) -> bool:
        if lie is None and item.nodeid in self._sound:
            return self._sound[item.nodeid]
        lying.current = lie
        callers.wait_s = 60.0 if lie is None else LYING_WAIT_S
        # As far as pytest knows some item of the session comes next: what all tests share stays.
        following: Any = SimpleNamespace(listchain=lambda: [item.session])
        reports = runtestprotocol(item, nextitem=following, log=False)
        lying.current = None
        passed = all(report.passed for report in reports)
        if lie is None and not passed:
            print(
                f"fails without a lie: {item.nodeid}", *(str(r.longrepr)[-400:] for r in reports if r.failed)
            )
        if not passed:
            # A test that broke off may have left a job that holds a lane.
            for operator in callers.Operator.everybody:
                operator.cancel_all()
        if lie is None:
            self._sound[item.nodeid] = passed
        return passed


def main(names: list[str]) -> int:
    """Run the trial, write proved.toml, and list the lies that no test noticed."""
    lying.is_on = True
    trial = Trial(lie for lie in LIES.values() if not names or {lie.name, *lie.rows.split()} & {*names})
    plugins = ("no:terminal", "no:cacheprovider", "pytest_timeout", "_hypothesis_pytestplugin")
    arguments = [str(CONTRACT), "-o", "addopts=", "--disable-plugin-autoload", "--timeout=100"]
    pytest.main([*arguments, *(word for name in plugins for word in ("-p", name))], plugins=[trial])
    for row, name in trial.unnoticed:
        if row not in trial.proofs:
            print(f"UNNOTICED: {row}: {name}")
    print(f"{len(trial.proofs)} rows proved by {len(trial.lies)} lies")
    _write(trial.proofs, kept=bool(names))
    return 1 if any(row not in trial.proofs for row, _ in trial.unnoticed) else 0


def _write(proofs: dict[str, tuple[str, str]], *, kept: bool) -> None:
    """What was proved, beside what was proved before if that is kept."""
    before = tomllib.loads(PROVED.read_text("utf-8")) if kept else {}
    proved = {row: (proof["lie"], proof["noticed_by"]) for row, proof in before.items()} | proofs
    lines = [
        f'{row} = {{ lie = "{lie}", noticed_by = "{test}" }}\n'
        for row, (lie, test) in sorted(proved.items(), key=lambda proof: int(proof[0][1:]))
    ]
    PROVED.write_text("# Written by `python -m lab.lies`.\n" + "".join(lines), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
