"""Jobs are recognised by a title and found by what was asked, on both databases."""

from typing import Any

import pytest

from servers.world import METERED, SPEECH, World, request_of
from tenuto.accounts.restrictions import Caller
from tenuto.errors import ModelNotAllowed
from tenuto.jobs import erasure, read, read_store
from tenuto.jobs.search import Search
from tenuto.jobs.titles import pattern_of

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
            lambda tx, after=cursor: read.list_jobs(  # type: ignore[misc]
                tx, caller, after=after, limit=limit, search=search, **chosen
            )
        )
        assert len(jobs) <= limit
        titles += [job.title for job in jobs]
        if cursor is None:
            return titles


def found(world: World, caller: Caller, wanted: str, **narrow: Any) -> list[str | None]:
    return pages(world, caller, Search(pattern=pattern_of(wanted)), **narrow)


@pytest.mark.parametrize(
    ("wanted", "those"),
    [
        ("心情", [0]),
        ("今天", [3, 0]),
        ("不好,怎", [0]),
        ("note  FOR", [1]),
        ("100%", [2]),
        ("f_i", [2]),
        ("%", [2]),
        ("abc株", [4]),
        ("nowhere", []),
    ],
)
def test_a_search_finds_what_the_text_contains(world: World, wanted: str, those: list[int]) -> None:
    """Chinese and Japanese too, which have no spaces; what means something to `like` is just a sign."""
    caller, other = world.caller(), world.caller()
    for text in TEXTS:
        submit(world, caller, text)
        submit(world, other, text)

    assert [TEXTS[number] for number in those] == found(world, caller, wanted)


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


def test_one_look_is_bounded_and_can_be_continued(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An account with more jobs than one request looks at gets a cursor, not an answer that takes long."""
    caller = world.caller()
    for number in range(9):
        submit(world, caller, f"part {number}")
    for cached in (read_store._found, read_store._page):
        cached.cache_clear()
    monkeypatch.setattr(read_store, "LOOKED_AT", 4)
    monkeypatch.setattr(read_store, "_LAST_LOOKED_AT", read_store._LAST_LOOKED_AT.replace("99999", "3"))
    narrow: dict[str, Any] = {"state": None, "kind": None, "model": None, "limit": 20}
    search = Search(pattern=pattern_of("part 0"))
    first, cursor = world.read(lambda tx: read.list_jobs(tx, caller, after=None, search=search, **narrow))
    everything = found(world, caller, "part 0")
    read_store._found.cache_clear()

    assert [] == first
    assert cursor is not None
    assert ["part 0"] == everything


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
    assert [] == [row for row in kept if "secret" in row and "key of" not in row]
