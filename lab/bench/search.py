"""An account with a hundred thousand jobs: turning its pages, and finding one of them by a word.

Its jobs are rows that are written directly, each a copy of one that was really made, with a text of its own:
Chinese or English, of 20 to 600 characters. Then as many wait besides as an account may have in a queue, for
a model that no worker has. One client asks on one connection.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

from lab.bench.client import Connection, get
from lab.bench.report import Row, below
from lab.bench.stage import TEXT, Stage, stage

from servers.postgres import PostgresServer
from tenuto.db import schema
from tenuto.db.database import Transaction, Value
from tenuto.ids import Ids
from tenuto.job.titles import title_and_search_text

JOBS = 99_500
WAITING = 20_000
ASKED = 60
LIMIT_MS = 200.0
WRITTEN_AT_ONCE = 500
SECOND_MS = 1000
WORDS = ["the", "note", "value", "of", "a", "full", "morning", "harbour", "slowly", "winter", "house"]
SIGNS = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自"
RARE = "琥珀"
"""In the oldest job alone, and not in the letters of the others."""


def measure(postgres: PostgresServer | None) -> list[Row]:
    """The same requests on either database."""
    with stage(postgres) as running:
        made = running.submit(TEXT)
        running.wait(made, "succeeded")
        began = time.monotonic()
        ids = _fill(running, made)
        if running.name == "PostgreSQL":
            # As autovacuum does after a while.
            assert postgres is not None and running.service.database_url is not None
            postgres.run(
                "vacuum analyze job", running.service.database_url.rpartition("/")[2].partition("?")[0]
            )
        how = f"fixed; {JOBS:,} jobs of one account, made in {time.monotonic() - began:.0f} s"
        rows = list(_rows(running, ids, how))
        _fill(running, made, WAITING, model="fake/nobody", state="queued", started_at=None, finished_at=None)
        return rows + list(
            _rows_beside_a_queue(running, f"fixed; {JOBS:,} ended jobs and {WAITING:,} queued")
        )


def _rows_beside_a_queue(running: Stage, how: str) -> Iterator[Row]:
    looks: dict[str, Callable[[], str]] = {
        "search beside a full queue, a word of many jobs": lambda: "q=harbour",
        "search beside a full queue, a word of none": lambda: "q=nowhere",
    }
    connection = Connection(running.port)
    for what, query in looks.items():
        yield _row(running, connection, what, query, how)
    connection.close()


def _rows(running: Stage, ids: list[str], how: str) -> Iterator[Row]:
    choose = random.Random(2)
    looks: dict[str, Callable[[], str]] = {
        "a page of 20 from anywhere": lambda: f"after={choose.choice(ids[1:])}",
        "the same, of failed jobs (there are none)": lambda: f"state=failed&after={choose.choice(ids[1:])}",
        "search, a word of many jobs": lambda: f"q={choose.choice(WORDS)}",
        "search, two signs of some jobs": lambda: f"q={quote(''.join(choose.sample(SIGNS, 2)))}",
        "search, a word of the oldest job alone": lambda: f"q={quote(RARE)}",
        "search, a word of none": lambda: "q=nowhere",
        "search, of one kind and state": lambda: f"q={quote(RARE)}&kind=speech&state=succeeded",
    }
    connection = Connection(running.port)
    for what, query in looks.items():
        yield _row(running, connection, what, query, how)
    found = json.loads(connection.ask(get(f"/v1/jobs?q={quote(RARE)}", running.keys[0])).body)
    assert [ids[0]] == [job["id"] for job in found["data"]], found
    connection.close()


def _row(running: Stage, connection: Connection, what: str, query: Callable[[], str], how: str) -> Row:
    took_s = sorted(_time(connection, f"/v1/jobs?limit=20&{query()}", running.keys[0]) for _ in range(ASKED))
    p95, p50 = (took_s[int(ASKED * share)] * 1000 for share in (0.95, 0.5))
    reason = f"{how}; p50 {p50:.1f} ms"
    return below(f"{running.name}: {what}, p95 of {ASKED}", p95, LIMIT_MS, "ms", reason, digits=1)


def _time(connection: Connection, path: str, key: str) -> float:
    began = time.perf_counter()
    answer = connection.ask(get(path, key))
    took_s = time.perf_counter() - began
    assert answer.status == 200, answer
    return took_s


def _fill(running: Stage, made: str, count: int = JOBS, **other: Value) -> list[str]:
    """Copies of this job, a second apart, until just before it; their ids, the oldest first.

    `other`: columns in which they differ from it.
    """
    database = running.database
    row = dict(database.read(lambda tx: tx.one("select * from job where id = :id", id=made)) or {})
    chance, at_ms = random.Random(1), int(row["created_at"]) - count * SECOND_MS
    ids: list[str] = []

    def write(tx: Transaction) -> None:
        [table] = [table for table in schema.tables(tx, database.dialect) if table.name == "job"]
        schema.insert(tx, database.dialect, table, table.columns, [_values(copy, table) for copy in copies])

    for _ in range(count // WRITTEN_AT_ONCE):
        copies = []
        for _ in range(WRITTEN_AT_ONCE):
            at_ms += SECOND_MS
            job_id = _id(at_ms)
            asked = _asked(_text(chance, first=not ids and count == JOBS))
            copies.append({**row, **other, "id": job_id, "created_at": at_ms, **asked})
            ids.append(job_id)
        database.write(write)
    return ids


def _id(at_ms: int) -> str:
    return Ids(lambda: at_ms).new("job")


def _values(copy: dict[str, Value], table: schema.Table) -> list[Value]:
    return [copy[name] for name in table.columns]


def _asked(text: str) -> dict[str, Value]:
    title, searched = title_and_search_text(text)
    parameters = json.dumps({"text": text}, ensure_ascii=False)
    return {"body": parameters, "parameters": parameters, "title": title, "search_text": searched}


def _text(chance: random.Random, *, first: bool) -> str:
    length = chance.randrange(20, 600)
    if first:
        return f"从前{RARE}里有一只虫。"
    if chance.random() < 0.5:
        return "".join(chance.choices(SIGNS, k=length))
    return " ".join(chance.choices(WORDS, k=length // 5))
