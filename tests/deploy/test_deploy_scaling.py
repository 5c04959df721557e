"""KEDA's query on the real schema: how many workers each lane has use for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from deploy.proxies import DEPLOY
from servers.world import World
from tenuto.db.database import Database

SCALED = {
    found["metadata"]["name"]: found
    for found in yaml.safe_load_all((DEPLOY / "kubernetes" / "keda" / "scaling.yaml").read_text("utf-8"))
    if found["kind"] == "ScaledObject"
}
QUERIES = {name: found["spec"]["triggers"][0]["metadata"]["query"] for name, found in SCALED.items()}
LANES = ("speech", "recognition", "image")


@pytest.fixture
def dialect() -> str:
    """KEDA asks PostgreSQL."""
    return "postgresql"


@pytest.fixture
def world(database: Database, tmp_path: Path) -> Iterator[World]:
    """Records with two slots for speech."""
    made = World(database, tmp_path)
    made.open(2)
    yield made
    assert [] == made.findings()


def test_the_query_counts_what_waits_and_runs_up_to_the_slots(world: World, database_url: str) -> None:
    """More workers than slots would have nothing to do; a running job keeps its worker wanted."""
    wanted = [asked(database_url, "speech")]
    caller = world.caller()
    for number in range(4):
        world.submit(caller, f"key {number}")
        wanted.append(asked(database_url, "speech"))
    claims = [world.claim(), world.claim()]
    wanted.append(asked(database_url, "speech"))
    for claim in claims:
        assert claim is not None
        world.finish(claim.attempt_id)
    left = [world.claim(), world.claim()]
    wanted.append(asked(database_url, "speech"))
    for claim in left:
        assert claim is not None
        world.finish(claim.attempt_id)
        wanted.append(asked(database_url, "speech"))

    assert [0, 1, 2, 2, 2, 2, 2, 1, 0] == wanted
    assert [0, 0] == [asked(database_url, "recognition"), asked(database_url, "image")]


def test_a_role_that_may_only_read_two_tables_is_enough(world: World, database_url: str) -> None:
    """As docs/operations/kubernetes.md makes it; each query asks for an integer."""
    world.submit(world.caller(), "key")
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute("create role scaling login")
        owner.execute("grant select on job, slot to scaling")
    try:
        with psycopg.connect(database_url, user="scaling") as scaling:
            found = {lane: scaling.execute(query(lane).encode()).fetchone() for lane in LANES}
    finally:
        with psycopg.connect(database_url, autocommit=True) as owner:
            owner.execute("drop owned by scaling")
            owner.execute("drop role scaling")

    assert {"speech": (1,), "recognition": (0,), "image": (0,)} == found


def test_every_lane_scales_between_one_worker_and_its_slots() -> None:
    """Not to none: a model whose workers are all away is refused, so nothing would wait for it."""
    bounds: dict[str, Any] = {}
    for name, found in SCALED.items():
        spec = found["spec"]
        per = int(spec["triggers"][0]["metadata"]["targetQueryValue"])
        bounds[name] = (
            spec["minReplicaCount"],
            spec["maxReplicaCount"] * per,
            spec["scaleTargetRef"]["name"],
        )
        assert spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
    settings = (DEPLOY / "kubernetes" / "tenuto.toml").read_text("utf-8")
    slots = {lane: int(settings.split(f"{lane}_slots = ")[1].split()[0]) for lane in LANES}

    assert {
        f"tenuto-worker-{lane}": (1, count, f"tenuto-worker-{lane}") for lane, count in slots.items()
    } == bounds


def query(lane: str) -> str:
    """The query of a lane's workers."""
    found: str = QUERIES[f"tenuto-worker-{lane}"]
    return found


def asked(url: str, lane: str) -> int:
    """What KEDA gets, as the program's own user."""
    with psycopg.connect(url) as connection:
        row = connection.execute(query(lane).encode()).fetchone()
    assert row is not None
    return int(row[0])
