"""The database roles of docs/operations/kubernetes.md: who migrates, who serves, who counts."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from deploy.proxies import DEPLOY
from servers.postgres import PostgresServer
from servers.service import RunningService

[GRANTS] = re.findall(
    r"```sql\n(.+?)```",
    (DEPLOY.parent / "docs" / "operations" / "kubernetes.md").read_text("utf-8"),
    re.DOTALL,
)
ROLES = ("tenuto_owner", "tenuto", "tenuto_scaling")


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database of the role that migrates; the three roles may sign in."""
    for role in ROLES:
        postgres_server.run(f"create role {role} login")
    postgres_server.run("create database roles owner tenuto_owner")
    yield postgres_server.url("roles")
    postgres_server.run("drop database roles with (force)")
    for role in ROLES:
        postgres_server.run(f"drop role {role}")


def as_role(url: str, role: str) -> str:
    """The same database for another user."""
    return re.sub(r"//\w+@", f"//{role}@", url)


def test_who_serves_needs_no_right_to_change_tables(url: str, tmp_path: Path) -> None:
    """With the documented grants and `migrations = "wait"` a job goes through (P16)."""
    default, later = GRANTS.strip().split("\n")
    with psycopg.connect(as_role(url, "tenuto_owner"), autocommit=True) as owner:
        owner.execute(default.encode())
    service = RunningService(
        tmp_path / "data", as_role(url, "tenuto"), variables={"TENUTO_MIGRATIONS": "wait"}
    )
    migrated = RunningService(tmp_path / "owner", as_role(url, "tenuto_owner")).command("admin", "migrate")
    with psycopg.connect(as_role(url, "tenuto_owner"), autocommit=True) as owner:
        owner.execute(later.encode())
    service.start()
    try:
        service.key = service.make_key(credit="1")
        state = service.wait(service.submit("Hold the note."))["state"]
        audited = service.command("admin", "audit")
    finally:
        service.stop()
    with (
        psycopg.connect(as_role(url, "tenuto"), autocommit=True) as serving,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        serving.execute("create table mine (id integer)")
    with psycopg.connect(as_role(url, "tenuto_scaling"), autocommit=True) as scaling:
        counted = scaling.execute("select count(*) from job").fetchone()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            scaling.execute("select * from api_key_secret")

    assert migrated.stdout.startswith("the database is up to date")
    assert ("succeeded", 0) == (state, audited.returncode)
    assert (1,) == counted
