"""The tier of each test, by its folder and by what it needs, and whether it is a variant of another.

`docs/testing.md` says what each tier is for, and what may be a variant.
"""

from pathlib import Path

import pytest

UNIT, CONTRACT, ADVERSITY = "unit", "contract", "adversity"
FOLDERS = {
    **dict.fromkeys(("alone", "client", "cli", "contract", "deploy", "documentation"), CONTRACT),
    "features/studio/browser": CONTRACT,
    # These start engine processes, servers that engines call, or pip and npm to download weights.
    **dict.fromkeys(("engines", "core/host", "features/models/weights"), CONTRACT),
    **dict.fromkeys(
        ("attack", "cluster", "crash", "features/backup", "laboratory", "limits", "properties", "simulation"),
        ADVERSITY,
    ),
}
"""Folders of one tier as a whole. Elsewhere a test is in the unit tier unless it needs a server."""
KILLS = frozenset({"test_kills_of_the_client.py", "test_killed_migrations.py"})
"""Files of the adversity tier in other folders."""
SERVERS = frozenset({"browser", "pool", "postgres_server", "seaweed", "service"})
"""Fixtures that start one."""
SERVER_PARAMETERS = frozenset({"postgresql", "s3"})
"""Values of parameters that make a test need a server."""
STARTERS = frozenset({"RunningService", "TENUTO", "start_postgres", "start_seaweedfs", "default_cache"})
"""A module that imports one of these starts the service or a server by itself, or reads weights."""
LONGEST = frozenset(
    {
        "test_backup.py",
        "test_claims.py",
        "test_contract_real.py",
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
VARIANTS = {
    "language": "the other language of a page whose code is the same",
    "database": "the second database, under a suite that reaches it by calls which others prove on both",
    "program": "third-party programs, libraries or systems, on paths that other suites prove",
    "model": "what a real model makes of more texts and recordings than `make test` gives it",
    "package": "a distribution in an environment of its own; that of the tests has all of them",
    "page": "one more page, screen, width or theme, of a program whose walks `make test` does",
    "site": "the documentation built as a site; its pages, links and code are read as files",
    "depth": "more inputs of a sort of which `make test` has some",
}
"""Why `make test-all` has it, whatever its tier: `@pytest.mark.variant(REASON, only=PARAMETER)`."""
VARIANT = "in_variants"
"""The mark of those tests, by which the two targets choose theirs, as by that of adversity."""
MEASURED = "measured"
"""The mark of what `make limits` runs, where `servers/speed.py` limits seconds."""
ALWAYS = frozenset(
    {"attack", "cluster", "crash", "laboratory", "limits", "properties", "simulation"}
    | {f"core/{name}" for name in ("account", "db", "file", "job", "money", "worker")}
    | {f"features/{name}" for name in ("audit", "backup", "evidence", "kept_results", "s3", "webhooks")}
)
"""Folders without variants: the ledger, leases, fencing, crashes, the commit of results."""
_TESTS = Path(__file__).parent


def tier(item: pytest.Item) -> str:
    """The tier of a collected test."""
    if item.path.name in KILLS:
        return ADVERSITY
    of_folder = next(filter(None, map(FOLDERS.get, _folders(item))), None)
    return of_folder or (CONTRACT if _needs_a_server(item) else UNIT)


def is_variant(item: pytest.Item) -> bool:
    """Whether `make test` leaves it out; a mark with `only` is for that value of a parameter alone."""
    values = {None, *map(str, _parameters(item))}
    marks = [mark for mark in item.iter_markers("variant") if mark.kwargs.get("only") in values]
    reasons = [str(mark.args[0]) if mark.args else "" for mark in marks]
    if wrong := [reason for reason in reasons if reason not in VARIANTS]:
        raise pytest.UsageError(f"{item.nodeid}: {wrong[0]!r} is not one of the reasons in tests/tiers.py")
    if marks and (kept := ALWAYS.intersection(_folders(item))):
        raise pytest.UsageError(f"{item.nodeid}: tests/{min(kept)} has no variants")
    return bool(marks)


def _folders(item: pytest.Item) -> list[str]:
    """The folders of the tests that it is in, the innermost first; one of another distribution has none."""
    inside = item.path.is_relative_to(_TESTS)
    return [str(folder) for folder in item.path.relative_to(_TESTS).parents][:-1] if inside else []


def _parameters(item: pytest.Item) -> list[object]:
    return list(item.callspec.params.values()) if hasattr(item, "callspec") else []


def _needs_a_server(item: pytest.Item) -> bool:
    """PostgreSQL, S3, the service as a process, or a model with its weights."""
    if not isinstance(item, pytest.Function) or item.get_closest_marker("real_engine") is not None:
        return True
    names = {*item.fixturenames, *vars(item.module)}
    values = {
        value if isinstance(value, str) else getattr(value, "__name__", "") for value in _parameters(item)
    }
    return bool(values & SERVER_PARAMETERS or names & (SERVERS | STARTERS))
