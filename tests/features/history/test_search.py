"""Jobs are recognised by a title and found by what was asked, on both databases."""

from collections.abc import Iterator
from typing import Any

import pytest

from servers.world import METERED, SPEECH, World, request_of
from tenuto.account.caller import Caller
from tenuto.errors import ModelNotAllowed
from tenuto.features.history import search as searching
from tenuto.features.history import store
from tenuto.features.history.search import Search, pattern_of
from tenuto.job import erasure

TEXTS = (
    "今天心情不好，怎么办？",
    "Hold the NOTE for its full value.",
    "100% of_it",
    "今天的天气",
    "ＡＢＣ株式会社",
)


def submit(world: World, caller: Caller, text: str, *, model: str = SPEECH, **more: Any) -> str:
    body = {"model": model, "parameters": {"text": text}, **more}
    return world.send(request_of(caller, f"key of {text} {model}", body)).job_id


def pages(
    world: World, caller: Caller, search: Search, *, limit: int = 20, **narrow: Any
) -> list[str | None]:
    """The titles of all pages, newest first."""
    titles: list[str | None] = []
    chosen: dict[str, Any] = {"state": None, "kind": None, "model": None} | narrow
    cursor = None
    while True:
        jobs, cursor = world.read(
            lambda tx, after=cursor: searching.list_jobs(  # type: ignore[misc]
                tx, caller, search, after=after, limit=limit, **chosen
            )
        )
        assert len(jobs) <= limit
        titles += [job.title for job in jobs]
        if cursor is None:
            return titles


def found(world: World, caller: Caller, wanted: str, **narrow: Any) -> list[str | None]:
    return pages(world, caller, Search(pattern=pattern_of(wanted)), **narrow)


def test_a_search_finds_what_the_text_contains(world: World) -> None:
    """Chinese and Japanese too, which have no spaces; what means something to `like` is just a sign."""
    caller, other = world.caller(), world.caller()
    for text in TEXTS:
        submit(world, caller, text)
        submit(world, other, text)
    expected = {
        "今天": [3, 0],
        "note  FOR": [1],
        "100%": [2],
        "f_i": [2],
        "%": [2],
        "abc株": [4],
        "nowhere": [],
    }

    assert expected == {
        wanted: [TEXTS.index(str(title)) for title in found(world, caller, wanted)] for wanted in expected
    }


def test_a_search_is_combined_with_other_filters(world: World) -> None:
    """State, kind, model, the caller's notes and the time, page by page; restricted keys see their models."""
    caller = world.caller()
    for number in range(7):
        submit(world, caller, f"part {number}", metadata={"chapter": str(number % 2), "Ü": '"x'})
        world.now_ms += 10_000
    metered = submit(world, caller, "part metered", model=METERED)
    world.cancel(caller.account_id, metered)
    began = (world.now_ms - 70_000) // 1000
    notes = Search(metadata={"chapter": "1", "Ü": '"x'})
    middle = Search(created_from=began + 20, created_before=began + 50)
    restricted = Caller("key", caller.account_id, None, frozenset({METERED}))

    assert ["part 5", "part 3", "part 1"] == pages(world, caller, notes, limit=1)
    assert [] == pages(world, caller, Search(metadata={"chapter": '1","Ü":"'}))
    assert ["part 4", "part 3", "part 2"] == pages(world, caller, middle, limit=2)
    assert ["part 3"] == pages(world, caller, Search(metadata={"chapter": "1"}, created_from=began + 20,
                                                     created_before=began + 50))  # fmt: skip
    assert ["part metered"] == found(world, caller, "PART", state="cancelled")
    assert ["part metered"] == found(world, caller, "part", model=METERED)
    assert [] == found(world, caller, "part", kind="image")
    assert ["part metered"] == found(world, restricted, "part", limit=1)
    with pytest.raises(ModelNotAllowed):
        found(world, restricted, "part", model=SPEECH)


def test_jobs_are_found_in_every_state(world: World) -> None:
    """Waiting, running, waiting for the operator and ended ones together, newest first, page by page."""
    caller = world.caller()
    for number in range(12):
        submit(world, caller, f"part {number}", model=METERED if number % 4 == 2 else SPEECH)
        world.now_ms += 10_000
    world.slots(12)
    claims = [world.claim() for _ in range(8)]
    attempts = [claim.attempt_id for claim in claims if claim is not None]
    world.finish(attempts[0])
    world.fail(attempts[1])
    assert world.fence(attempts[2])
    world.unknown(attempts[2])
    world.cancelled(attempts[3])
    states = {row["state"] for row in world.all("select state from job")}

    assert {"queued", "running", "recovery_required", "succeeded", "failed", "cancelled"} == states
    assert [f"part {number}" for number in reversed(range(12))] == found(world, caller, "part", limit=5)
    assert ["part 11", "part 10", "part 9", "part 8"] == found(world, caller, "part", state="queued")
    assert ["part 2"] == found(world, caller, "part", state="recovery_required")
    assert ["part 10", "part 6", "part 2"] == found(world, caller, "part", model=METERED, limit=1)


@pytest.fixture
def short_looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One statement looks at four ended jobs, and at three of each other state."""
    store._found.cache_clear()
    monkeypatch.setattr(store, "LOOKED_AT", 4)
    monkeypatch.setattr(store, "LOOKED_AT_OPEN", 3)
    monkeypatch.setattr(store, "_LAST_LOOKED_AT", store._LAST_LOOKED_AT.replace("99999", "3"))
    yield
    store._found.cache_clear()


@pytest.mark.usefixtures("short_looks")
@pytest.mark.parametrize("ended", [0, 5, 9])
def test_one_look_is_bounded_and_can_be_continued(world: World, ended: int) -> None:
    """An account with more jobs than one request looks at gets a cursor, not an answer that takes long."""
    caller = world.caller()
    job_ids = [submit(world, caller, f"part {number}") for number in range(9)]
    for job_id in job_ids[9 - ended :]:
        world.cancel(caller.account_id, job_id)
    narrow: dict[str, Any] = {"state": None, "kind": None, "model": None, "limit": 20}
    search = Search(pattern=pattern_of("part 0"))
    first, cursor = world.read(lambda tx: searching.list_jobs(tx, caller, search, after=None, **narrow))

    assert [] == first
    assert cursor is not None
    assert ["part 0"] == found(world, caller, "part 0")
    assert [f"part {number}" for number in reversed(range(9))] == found(world, caller, "part", limit=2)


def test_a_search_of_ended_jobs_reads_the_index_alone(world: World) -> None:
    """Rows of jobs are long, for they hold what was asked."""
    if world.database.dialect != "sqlite":
        pytest.skip("PostgreSQL's plans are those of a grown database: tests/cluster/test_plans.py")
    statement = store._found(None, has_voice=False, has_pattern=True)
    bounds = {"account_id": "account_a", "since": "", "before": "joc", "pattern": "%x%"}
    plan = [str(row["detail"]) for row in world.all(f"explain query plan {statement}", **bounds)]

    assert 1 == sum("USING COVERING INDEX job_found_ended" in line for line in plan)
    assert [] == [line for line in plan if line.startswith("SCAN j") or "B-TREE" in line]


def test_erasing_a_job_erases_its_title(world: World) -> None:
    """It is neither shown nor found any more; the record says when its content was erased."""
    caller = world.caller()
    job_id = submit(world, caller, "a secret")
    world.cancel(caller.account_id, job_id)
    world.now_ms += 5000
    world.write(lambda tx: erasure.erase_content(tx, caller, job_id=job_id, now_ms=world.now_ms))
    operation = world.operation(caller.account_id, job_id)
    kept = [str(row) for rows in world.everything().values() for row in rows]

    assert (None, world.now_ms // 1000) == (operation.title, operation.erased_at)
    assert [] == found(world, caller, "secret")
    assert {("", "")} == {(row["title"], row["search_text"]) for row in world.all("select * from job")}
    assert [] == [row for row in kept if "secret" in row and "key of" not in row]
