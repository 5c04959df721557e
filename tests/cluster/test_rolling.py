"""A rolling upgrade: processes of this version and of a later one side by side on one database (P21)."""

import shutil
from pathlib import Path

import tenuto
import tenuto_client
import tenuto_engine
from cluster.fleet import Fleet, Node
from servers import checker
from servers.clients import Client
from servers.processes import until
from tenuto.db import schema

PACKAGES = (tenuto, tenuto_engine, tenuto_client)


def test_old_and_new_processes_serve_side_by_side(fleet: Fleet, tmp_path: Path) -> None:
    """Under load one machine after the other gets a program with a later migration, which adds columns to
    every table: nothing is refused but by the API that is being restarted, nothing is lost or charged twice,
    and nobody who is still old ends (P1, P2, P3, P21)."""
    later = _later_program(fleet, tmp_path / "later")
    keys = [fleet.operator.make_key(f"rolling {number}", credit="100") for number in range(2)]
    clients = [
        Client(fleet.caller(node, key), key, ["Over an upgrade."], number)
        for number, (node, key) in enumerate(zip(fleet.apis, keys, strict=True))
    ]
    for client in clients:
        client.start()
    codes = [_upgrade(node, later, clients) for node in (fleet.apis[0], fleet.workers[0])]
    # Now each kind of process is there in both versions.
    old = [fleet.apis[1], fleet.workers[1]]
    _more(clients)
    old_ones = [node.is_running() for node in old]
    codes += [_upgrade(node, later, clients) for node in old]
    for client in clients:
        client.finish()
    for client in clients:
        client.join(60)
    applied = fleet.rows("select name from migration where name like '0990%'")

    assert [{"name": "0990_later"}] == applied
    assert ([True] * 2, [0] * 4) == (old_ones, codes)
    assert [] == [fault for client in clients for fault in client.faults]
    assert [] == [work for client in clients for work in client.unfinished()]
    checker.check_audit(fleet.operator)


def _upgrade(node: Node, environment: dict[str, str], clients: list[Client]) -> int:
    """One process ends and begins again as the later program; gives the exit code of the old one."""
    code = node.stop()
    node.environment |= environment
    node.begin()
    node.await_ready()
    _more(clients)
    return code


def _more(clients: list[Client]) -> None:
    """Every client gets another job done."""
    done = [sum(work.sha256 is not None for work in client.works) for client in clients]
    for client, before in zip(clients, done, strict=True):
        until(
            lambda client=client, before=before: sum(w.sha256 is not None for w in client.works) > before,  # type: ignore[misc]
            40,
            f"another job is done; faults: {client.faults}",
        )


def _later_program(fleet: Fleet, folder: Path) -> dict[str, str]:
    """A copy of this program with a later migration; the variables that run it."""
    for package in PACKAGES:
        shutil.copytree(
            Path(package.__file__ or "").parent,
            folder / package.__name__,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    names = [table.name for table in fleet.database.read(lambda tx: schema.tables(tx, "postgresql"))]
    lines = ["create table later (id text primary key, job_id text not null references job (id));"]
    for name in names:
        lines.append(f"alter table {name} add column later_note text;")
        lines.append(f"alter table {name} add column later_count integer not null default 0;")
    (folder / "tenuto" / "db" / "migrations" / "0990_later.sql").write_text("\n".join(lines) + "\n")
    return {"PYTHONPATH": str(folder)}
