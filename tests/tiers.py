"""The tier of each test, by its folder and by what it needs. `docs/testing.md` says what each tier is for."""

from pathlib import Path

import pytest

UNIT, CONTRACT, ADVERSITY = "unit", "contract", "adversity"
FOLDERS = {
    **dict.fromkeys(("alone", "client", "cli", "contract", "deploy", "documentation", "studio"), CONTRACT),
    **dict.fromkeys(
        ("attack", "backup", "cluster", "crash", "faults", "limits", "properties", "simulation"), ADVERSITY
    ),
}
"""Folders of one tier as a whole. Elsewhere a test is in the unit tier unless it needs a server."""
SERVERS = frozenset({"browser", "pool", "postgres_server", "seaweed", "service"})
"""Fixtures that start one."""
STARTERS = frozenset({"RunningService", "TENUTO", "start_postgres", "start_seaweedfs", "default_cache"})
"""A module that imports one of these starts the service or a server by itself, or reads weights."""
LONGEST = frozenset(
    {
        "test_backup.py",
        "test_claims.py",
        "test_contract_real_recognition.py",
        "test_contract_spoken.py",
        "test_failpoints.py",
        "test_guide.py",
        "test_kills.py",
        "test_live_events.py",
        "test_moving.py",
        "test_neighbours.py",
        "test_outages.py",
        "test_site.py",
        "test_state_machine.py",
        "test_studio_access.py",
        "test_studio_modules.py",
        "test_studio_reference.py",
        "test_studio_walk.py",
        "test_tutorials.py",
        "test_upgrade.py",
    }
)
"""Files with a test that takes a quarter of a minute or more (`--durations=20` names them)."""
_TESTS = Path(__file__).parent


def tier(item: pytest.Item) -> str:
    """The tier of a collected test."""
    folder = item.path.relative_to(_TESTS).parts[0] if item.path.is_relative_to(_TESTS) else ""
    return FOLDERS.get(folder) or (CONTRACT if _needs_a_server(item) else UNIT)


def _needs_a_server(item: pytest.Item) -> bool:
    """PostgreSQL, S3, the service as a process, or a model with its weights."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("real_engine") is not None:
        return True
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = {*item.fixturenames, *vars(item.module)}
    return "postgresql" in parameters or bool(names & (SERVERS | STARTERS))
