"""Who is away, as a process sees it that looks at the workers' rows every few seconds."""

import pytest

from servers.world import World
from tenuto.kind import operations as catalog
from tenuto.kind.presence import AWAY_S, OBSERVE_S, STALE_MS, Presence

HOUR_MS = 3_600_000


class Observer:
    """A process that looks at the workers, on a monotonic clock of its own."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.presence = Presence()
        self.now_s = 1000.0

    def look(self, *, beating: tuple[str, ...] = (), clock_ms: int = 0, times: int = 1) -> frozenset[str]:
        """So many looks; before each one these workers beat, by a clock that is so far off. Who is away."""
        for _ in range(times):
            self.now_s += OBSERVE_S
            self.world.now_ms += int(OBSERVE_S * 1000)
            for worker_id in beating:
                at_ms = self.world.now_ms + clock_ms
                self.world.write(lambda tx, i=worker_id, at=at_ms: catalog.see_worker(tx, i, now_ms=at))  # type: ignore[misc]
            rows = self.world.read(catalog.workers)
            self.presence.observe(rows, now_s=self.now_s, now_ms=self.world.now_ms)
        return self.presence.away


@pytest.fixture
def observer(world: World) -> Observer:
    world.register("worker_a")
    return Observer(world)


def test_a_lost_worker_is_away_within_35_seconds(observer: Observer) -> None:
    """Counted from its last beat, which may have come just after a look (R24, R189)."""
    observer.look(beating=("worker_a",))
    before = observer.look(times=int(AWAY_S / OBSERVE_S))
    after = observer.look()

    assert (frozenset(), frozenset({"worker_a"})) == (before, after)
    assert AWAY_S + 2 * OBSERVE_S < 35


@pytest.mark.parametrize("clock_ms", [-24 * HOUR_MS, 24 * HOUR_MS])
def test_clocks_that_differ_make_nobody_away(observer: Observer, clock_ms: int) -> None:
    """A worker whose clock is a day off lives while it beats, and is lost when it does not (P20)."""
    living = observer.look(beating=("worker_a",), clock_ms=clock_ms, times=50)
    lost = observer.look(times=20)
    back = observer.look(beating=("worker_a",), clock_ms=clock_ms)

    assert [frozenset(), {"worker_a"}, frozenset()] == [living, lost, back]


def test_a_restart_believes_rows_that_are_not_old(world: World, observer: Observer) -> None:
    """Its first look counts a worker that was seen minutes ago, but none that was seen longer ago. That one
    counts as soon as it beats.
    """
    world.now_ms += STALE_MS - 10_000
    believed = observer.look()
    observer.presence = Presence()
    world.now_ms += 10_000
    refused = observer.look()
    world.register("worker_new")
    beating = observer.look(beating=("worker_a",))

    assert [frozenset(), {"worker_a"}, frozenset()] == [believed, refused, beating]


def test_a_long_gap_proves_nothing(observer: Observer) -> None:
    """While the database is away nobody can beat: they get their time again. Those lost before stay so."""
    observer.world.register("worker_b")
    observer.look(beating=("worker_a", "worker_b"))
    observer.look(beating=("worker_a",), times=20)
    observer.now_s += 600
    after_gap = observer.look()
    later = observer.look(times=int(AWAY_S / OBSERVE_S) + 1)

    assert [{"worker_b"}, {"worker_a", "worker_b"}] == [after_gap, later]
