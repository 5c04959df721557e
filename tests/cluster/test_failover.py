"""After a failover there is one database, whatever the old primary does."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from cluster.conftest import settings
from cluster.failover import VERBS, drill, node
from servers.pairs import NAME, Pair, ask, make_pair
from servers.processes import until
from servers.proxy import Proxy
from servers.seaweedfs import REGION, SeaweedServer
from servers.service import PLAIN
from tenuto.config import load
from tenuto.file.blob_store_opening import open_store

PATIENCE_S = 60.0


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A primary with an empty database, and its standby."""
    made = make_pair()
    yield made
    made.stop()


def behind(link: Proxy, seaweed: SeaweedServer, name: str) -> dict[str, str]:
    """A store in the bucket, reached through the link."""
    return {
        **seaweed.variables,
        "TENUTO_BLOBS": f"s3://tenuto/{name}",
        "TENUTO_S3_ENDPOINT": f"http://127.0.0.1:{link.port}",
        "TENUTO_S3_REGION": REGION,
        "TENUTO_S3_TIMEOUT_S": "1",
    }


def test_an_old_primary_that_comes_back_gets_nothing(pair: Pair, tmp_path: Path) -> None:
    """Nobody fenced it, and all list it first: each API and worker is restarted beside it, and every job is
    accepted by, and run from, the promoted one; each process reports it as an error (P1)."""
    seen = drill(tmp_path, pair, settings(tmp_path))

    assert [] == seen.written_to_old
    assert [0] == seen.sessions_on_old
    assert {"succeeded"} == set(seen.states)
    assert ["api0", "worker0", "api1", "worker1"] == seen.reported
    assert "agrees with the ledger" in seen.audit


def test_with_several_hosts_a_start_waits_for_the_store(
    pair: Pair, seaweed: SeaweedServer, tmp_path: Path
) -> None:
    """Only the store knows which host has the newest copy. While it hangs, an API answers 503, a worker does
    nothing, and the old primary that both list first gets nothing. With one host there is no choice: that API
    starts (P1)."""
    link = Proxy(("127.0.0.1", seaweed.port))
    store = behind(link, seaweed, tmp_path.name)
    first = node("api", "first", tmp_path, pair.old.url(NAME), store)
    single = node("api", "single", tmp_path, pair.new.url(NAME), store)
    api, worker = (node(verb, verb, tmp_path, pair.url, store) for verb in VERBS)
    blobs = open_store(load(single.environment), single.environment)
    try:
        first.begin()
        first.await_ready()
        first.stop()
        begun = ask(pair.old, "select epoch from generation")
        pair.fail_over()
        single.begin()
        until(lambda: b'"timeline":2' in (blobs.newest() or b""), PATIENCE_S, "the store knows of it")
        single.stop()
        pair.old.start()
        link.stall()
        for each in (api, worker, single):
            each.begin()
        single.await_ready()
        until(lambda: "database.unknown" in api.said(), PATIENCE_S, "the API waits")
        until(lambda: "database.unknown" in worker.said(), PATIENCE_S, "the worker waits")
        ready = httpx2.get(f"{api.url}/readyz", verify=PLAIN)
        alive = httpx2.get(f"{api.url}/livez", verify=PLAIN)
        refused = httpx2.post(f"{api.url}/v1/jobs", json={}, verify=PLAIN)
        workers = ask(pair.new, "select id from worker")
        link.pass_on()
        for each in (api, worker):
            each.await_ready()
    finally:
        for each in (first, single, api, worker):
            if each.is_running():
                each.kill()
        link.close()

    assert [503, 200, 503] == [answer.status_code for answer in (ready, alive, refused)]
    assert ("unavailable", "2") == (refused.json()["error"]["code"], refused.headers["retry-after"])
    assert [] == workers + ask(pair.old, "select id from worker")
    assert begun == ask(pair.old, "select epoch from generation")


def test_a_store_of_another_database_is_told_nothing(
    pair: Pair, seaweed: SeaweedServer, tmp_path: Path
) -> None:
    """A process is given the wrong bucket, which does not answer while it starts. Once it does, the process
    ends. The record of the service whose bucket it is stays as it was: otherwise that one's processes would
    leave their database (P1, P3)."""
    link = Proxy(("127.0.0.1", seaweed.port))
    store = behind(link, seaweed, tmp_path.name)
    pair.old.run("create database second")
    right = node("api", "right", tmp_path, pair.old.url(NAME), store)
    own = {**store, "TENUTO_BLOBS": f"s3://tenuto/{tmp_path.name}-second"}
    second = node("api", "second", tmp_path, pair.old.url("second"), own)
    wrong = node("api", "wrong", tmp_path, pair.old.url("second"), store)
    blobs = open_store(load(right.environment), right.environment)
    try:
        for each in (right, second):
            each.begin()
            each.await_ready()
            until(lambda: blobs.newest() is not None, PATIENCE_S, "the store knows of it")
            each.stop()
        recorded = blobs.newest()
        pair.old.run("update generation set epoch = epoch + 1000000000", "second")
        link.stall()
        wrong.begin()
        wrong.await_ready()
        link.pass_on()
        until(lambda: not wrong.is_running(), PATIENCE_S, "it ends")
        left = blobs.newest()
    finally:
        for each in (right, second, wrong):
            if each.is_running():
                each.kill()
        link.close()

    assert "store.other" in wrong.said()
    assert recorded == left
