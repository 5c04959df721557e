"""The drill of a failover: the standby is promoted, and the old primary comes back, still taking writes.

Two APIs and two workers are given both servers, the old one first. Each process is restarted beside the two.
"""

import os
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx2

from cluster.fleet import Node, Verb
from cluster.machines import Proxied
from servers.accounts import key_of
from servers.pairs import NAME, Pair, ask
from servers.ports import free_port
from servers.postgres import PostgresServer
from servers.processes import until
from servers.service import FINAL, PLAIN, RunningService
from tenuto.db.database_opening import open_database

PATIENCE_S = 90.0
VERBS: tuple[Verb, ...] = ("api", "worker")
_SESSIONS = "select count(*) from pg_stat_activity where application_name in ('tenuto', 'tenuto-wake')"
_TABLES = "select tablename from pg_tables where schemaname = 'public' order by 1"
_DIGEST = "select md5(coalesce(string_agg(t::text, '' order by t::text), '')) from {} t"


@dataclass(frozen=True)
class Seen:
    """What came of it."""

    written_to_old: list[str]
    """The tables of the old primary that have changed since it came back."""
    sessions_on_old: list[object]
    states: list[str]
    """Of every accepted job, as the API sees it that has not accepted it, perhaps."""
    reported: list[str]
    """The processes that have logged an outdated copy since their last start."""
    audit: str
    """What the operator's command says about the records."""


def drill(folder: Path, pair: Pair, variables: Mapping[str, str]) -> Seen:
    """Carry it out; the pair's database is empty."""
    named = [(verb, f"{verb}{number}") for number in range(2) for verb in VERBS]
    nodes = [node(verb, name, folder, pair.url, variables) for verb, name in named]
    apis = [each for each in nodes if each.verb == "api"]
    for each in nodes:
        each.begin()
    try:
        for each in nodes:
            each.await_ready()
        with closing(open_database(pair.old.url(NAME))) as database:
            key = key_of(database, "drill", credit="100")
        jobs = [_accepted(api, key) for api in apis]
        until(lambda: all(_state(apis[0], key, job) in FINAL for job in jobs), PATIENCE_S, "they are done")
        pair.fail_over()
        jobs += [_accepted(api, key) for api in apis]
        pair.old.start()
        before = _digests(pair.old)
        for each in nodes:
            jobs += [_accepted(api, key) for api in apis if api is not each]
            each.stop()
            each.begin()
            each.await_ready()
            jobs += [_accepted(api, key) for api in apis]
        shown = [(apis[number % 2], job) for number, job in enumerate(jobs, 1)]
        until(lambda: all(_state(api, key, job) in FINAL for api, job in shown), PATIENCE_S, "all are done")
        until(lambda: all(map(_has_reported, nodes)), PATIENCE_S, "all have reported it")
        after = _digests(pair.old)
        operator = RunningService(_folder(folder, "operator"), pair.url, variables=variables)
        return Seen(
            [table for table in before if before[table] != after[table]],
            ask(pair.old, _SESSIONS),
            [_state(api, key, job) for api, job in shown],
            [each.name for each in nodes if _has_reported(each)],
            operator.command("admin", "audit", check=False).stdout,
        )
    finally:
        for each in nodes:
            if each.is_running():
                each.kill()


def node(verb: Verb, name: str, folder: Path, database: str, variables: Mapping[str, str]) -> Node:
    """A process of the service with a data folder of its own, and the folder of bytes that all share."""
    own = _folder(folder, name)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("TENUTO_")}
    settings = {"TENUTO_ENGINES": "fake", "TENUTO_DATA": str(own), "TENUTO_DATABASE": database}
    environment = {**inherited, "XDG_STATE_HOME": f"{own}.state", **settings, **variables}
    made = Node(verb, Proxied(name), own, environment)
    if verb == "api":
        made.port = free_port()
    return made


def _folder(folder: Path, name: str) -> Path:
    (folder / "blobs").mkdir(exist_ok=True)
    own = folder / name
    own.mkdir()
    (own / "blobs").symlink_to(folder / "blobs")
    return own


def _has_reported(each: Node) -> bool:
    return '"database.outdated"' in each.said()


def _accepted(api: Node, key: str) -> str:
    """The id of a job that this API has accepted, however long that takes."""
    accepted: list[str] = []
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": str(uuid.uuid4())}
    body = {"model": "fake/speech", "parameters": {"text": "After the failover."}}

    def submit() -> bool:
        answer = httpx2.post(f"{api.url}/v1/jobs", json=body, headers=headers, timeout=60, verify=PLAIN)
        assert answer.status_code in (202, 503), answer.text
        if answer.status_code == 202:
            accepted.append(answer.json()["id"])
        return bool(accepted)

    until(submit, PATIENCE_S, f"{api.name} accepts a job; log:\n{api.said()[-2000:]}")
    return accepted[0]


def _state(api: Node, key: str, job_id: str) -> str:
    """The state of the job, or the status of another answer."""
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx2.get(f"{api.url}/v1/jobs/{job_id}", headers=headers, timeout=60, verify=PLAIN)
    return str(answer.json()["state"] if answer.status_code == 200 else answer.status_code)


def _digests(server: PostgresServer) -> dict[str, object]:
    """What each of its tables holds."""
    return {str(table): ask(server, _DIGEST.format(table)) for table in ask(server, _TABLES)}
