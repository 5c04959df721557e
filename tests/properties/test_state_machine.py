"""Any calls in any order on both databases, with faults: all agrees after every step."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from properties.machine import Machine
from tenuto.db.database import Database

EXAMPLES = int(os.environ.get("TENUTO_STATE_MACHINE_EXAMPLES", "0"))
"""How many walks; 0: what a test run takes. `make soak-tests` sets it; walks then differ from run to run."""

STEPS = int(os.environ.get("TENUTO_STATE_MACHINE_STEPS", "60"))


@pytest.mark.timeout(6 * 3600 if EXAMPLES else 300)
def test_any_calls_in_any_order(database: Database, tmp_path: Path) -> None:
    """Whatever happens in whatever order, records and money agree (P1 to P11, P20)."""
    machine: type[Machine] = type(
        "MachineOnThisDatabase", (Machine,), {"database": database, "folder": tmp_path}
    )
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or 12,
            stateful_step_count=STEPS,
            derandomize=not EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.generate],  # A walk of sixty steps is read faster than it is shrunk.
            suppress_health_check=list(HealthCheck),
        ),
    )
