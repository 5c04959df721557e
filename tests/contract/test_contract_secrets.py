"""Keys and texts stay where they belong: no key anywhere, no text in logs or metrics."""

import uuid
from collections.abc import Iterator

import httpx2
import pytest

from servers.callers import METERED, Operator, job


@pytest.fixture
def canary() -> str:
    return f"canary-{uuid.uuid4()}"


def test_keys_and_texts_stay_where_they_belong(paid: Operator, canary: str) -> None:
    """After jobs of every end, refusals and replays no file, row, log or metric holds the key (R205).

    The text is in the records, for the job needs it, but in no log line and no metric; the service logs all
    that it can log.
    """
    caller = paid.caller(credit="1")
    for directive in ("", "[fake:raise] ", "[fake:garbage] ", "[fake:exit] "):
        caller.wait(caller.submit(f"{directive}{canary}"))
    unknown = caller.submit(f"[fake:unknown] {canary}", model=METERED)
    caller.wait(unknown)
    paid.service.command("admin", "recover", "void", unknown)
    finished = caller.wait(caller.submit(canary))
    artifact_id = finished["artifacts"][0]["id"]
    answered = [
        caller.get(f"/v1/artifacts/{artifact_id}/content"),
        caller.request("POST", f"/v1/jobs/{finished['id']}/cancel"),
        caller.get("/v1/models"),
        caller.get("/v1/jobs"),
    ]
    paid.blob_file(artifact_id).unlink()
    refused = [
        caller.post_job(job(f" {canary}")),
        caller.post_job(job("x", lang=canary, voice_id=canary, **{canary: canary})),
        caller.post_job(f'{{"model": "{canary}", "parameters": NaN}}'.encode()),
        caller.post_job(job(model=canary), key=canary),
        caller.get(f"/v1/jobs/{canary}"),
        caller.get(f"/v1/jobs?state={canary}"),
        caller.get(f"/{canary}"),
        caller.get("/v1/jobs", {"Host": canary + "/"}),
        caller.get("/v1/jobs", {"Authorization": f"Bearer {caller.key[:-1]}"}),
        caller.get(f"/v1/jobs/{caller.key}"),
        caller.get(f"/v1/jobs?after={caller.key}"),
    ]
    missing = caller.get(f"/v1/artifacts/{artifact_id}/content")
    log = paid.service.log_path.read_text()
    metrics = httpx2.get(f"http://127.0.0.1:{paid.service.variables['TENUTO_METRICS_PORT']}/metrics").text

    assert {200} == {answer.status_code for answer in answered}
    assert 503 == missing.status_code
    assert all(400 <= answer.status_code < 500 for answer in refused)
    assert caller.account_id in "".join(_records(paid))
    assert canary in "".join(_records(paid))
    assert "job.failed" in log
    assert 'tenuto_http_requests_total{method="POST",route="/v1/jobs",status="202"}' in metrics
    assert [] == [name for name, text in (("log", log), ("metrics", metrics)) if canary in text]
    assert [] == [name for name, text in (("log", log), ("metrics", metrics)) if caller.key in text]
    assert not any(caller.key in text for text in _records(paid))
    assert not any(caller.key.encode() in content for content in _files(paid))


def _records(paid: Operator) -> Iterator[str]:
    """Every row of every table, as text."""
    tables = {
        "sqlite": "select name from sqlite_master where type = 'table'",
        "postgresql": "select relname as name from pg_stat_user_tables",
    }
    for table in paid.database.read(lambda tx: tx.all(tables[paid.database.dialect])):
        rows = paid.database.read(lambda tx, name=table["name"]: tx.all(f"select * from {name}"))  # type: ignore[misc]
        for row in rows:
            yield " ".join(str(row[column]) for column in row.keys())  # noqa: SIM118 (a row is no dict)


def _files(paid: Operator) -> Iterator[bytes]:
    """Every file of the data folder, the database with its log among them."""
    for path in paid.service.folder.rglob("*"):
        if path.is_file():
            yield path.read_bytes()
