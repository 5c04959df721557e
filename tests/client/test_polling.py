"""When a client asks again, and which answers it takes (R221–R223, R226, R227)."""

import hashlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from client.conftest import JOB, VirtualClock, accepted, client, content, succeeded, told
from client.test_client_rules import BUSY, segment
from client.test_verbs import run
from servers.scripted import Asked, Reply, ScriptedService
from tenuto_client import ContentMismatch, GaveUpWaiting

__all__ = ["run"]

LEAST_S = 1.0 - 1e-9

Script = Callable[[Asked], Reply]


class Timed:
    """Answers as a script says, and notes when it was asked and when it answered, by the test's clock."""

    def __init__(self, clock: VirtualClock, script: Script, takes_s: float = 0.0) -> None:
        self.clock = clock
        self.script = script
        self.takes_s = takes_s
        self.times: dict[str, list[tuple[float, float]]] = {}

    def __call__(self, asked: Asked) -> Reply:
        began = self.clock.monotonic()
        self.clock.answering_s += self.takes_s
        self.times.setdefault(asked.path, []).append((began, self.clock.monotonic()))
        return self.script(asked)

    def pauses(self, path: str = f"/v1/jobs/{JOB}") -> list[float]:
        """From each answer at this path to the next request for it."""
        return [later[0] - earlier[1] for earlier, later in pairwise(self.times[path])]

    def intervals(self, path: str) -> list[float]:
        """From each request for this path to the next."""
        return [later[0] - earlier[0] for earlier, later in pairwise(self.times[path])]


def running(ends_after: int, headers: Callable[[Asked], dict[str, str]]) -> Script:
    """A job that succeeds at the n-th read; until then each answer has these headers."""
    reads = 0

    def answer(asked: Asked) -> Reply:
        nonlocal reads
        if asked.method == "POST":
            return accepted(Retry_After="1")
        reads += 1
        return succeeded() if reads >= ends_after else told("running", headers=headers(asked))

    return answer


@pytest.mark.parametrize(
    ("headers", "takes_s"),
    [
        ({}, 45.0),
        ({"Preference-Applied": "wait=1"}, 0.1),
        ({"Preference-Applied": "respond-async"}, 1.2),
    ],
)
def test_an_answer_that_was_not_held_is_followed_by_a_pause(
    headers: dict[str, str], takes_s: float, clock: VirtualClock
) -> None:
    """Slow is not held, and one that says so must have been: a second at least between two reads (R221)."""
    script = Timed(clock, running(5, lambda _: {"Retry-After": "1", **headers}), takes_s)
    with ScriptedService([script]) as service, client(service, clock) as tenuto:
        tenuto.speech.create("x", model="m").wait()

    assert 4 == len(script.pauses()) and min(script.pauses()) >= LEAST_S, script.pauses()


def test_an_answer_that_was_held_takes_the_place_of_the_pause(clock: VirtualClock) -> None:
    """The service confirms the seconds that it was asked to wait: they count as waited for (R221)."""

    def held(asked: Asked) -> dict[str, str]:
        return {"Retry-After": "2", "Preference-Applied": f"wait={asked.query['wait'][0]}"}

    script = Timed(clock, running(4, held), takes_s=2.0)
    with ScriptedService([script]) as service, client(service, clock) as tenuto:
        tenuto.speech.create("x", model="m").wait()

    # The first read is held for one second, as the submission said, of the two that now follow.
    assert [1.0, 0.0, 0.0] == pytest.approx(script.pauses())


def test_a_service_that_refuses_wait_is_read_without_it(clock: VirtualClock) -> None:
    """`wait` is not in the contract: refused in any words, it is left out from then on (R221)."""
    refusal = Reply(400, b"<h1>Bad Request</h1>", {"Retry-After": "0"})
    held = told("running", headers={"Retry-After": "2"})
    script = [accepted(Retry_After="2"), refusal, held, held, succeeded()]
    with ScriptedService(script) as service, client(service, clock) as tenuto:
        tenuto.speech.create("x", model="m").wait()
        queries = [asked.query for asked in service.asked if asked.method == "GET"]

    assert [{"wait": ["2"]}, {}, {}, {}] == queries
    assert [1.0, 2.0, 2.0] == clock.slept[-3:]


@pytest.mark.parametrize(
    "last", [Reply(503, BUSY, {"Retry-After": "7000"}), told("queued", headers={"Retry-After": "7000"})]
)
def test_waiting_gives_up_rather_than_asking_too_early(last: Reply, clock: VirtualClock) -> None:
    """The two hours are waited out; the service is not asked before it wants to be (R221, R223)."""
    running_ = told("running", headers={"Retry-After": "600"})
    with (
        ScriptedService([accepted(Retry_After="1"), running_, last]) as service,
        client(service, clock) as tenuto,
    ):
        job = tenuto.speech.create("x", model="m")
        with pytest.raises(GaveUpWaiting) as gave_up:
            job.wait()
        asked = len(service.asked)

    assert (JOB, 3) == (gave_up.value.job_id, asked)
    assert 7200 == pytest.approx(sum(clock.slept))


def streamed(lists: list[list[dict[str, Any]]], retry_after: str = "1") -> Script:
    """A streaming job with these lists of segments, one after the other; before the last it has succeeded."""

    def answer(asked: Asked) -> Reply:
        if asked.method == "POST":
            return accepted(Retry_After=retry_after)
        if asked.path.endswith("/content"):
            return content(asked.path.split("/")[-2].encode())
        if asked.path.endswith("/audio-segments"):
            return Reply(200, {"data": lists.pop(0) if len(lists) > 1 else lists[0]})
        return told("running" if len(lists) > 1 else "succeeded", headers={"Retry-After": retry_after})

    return answer


def spoken(sequence: int, attempt: str = "a") -> dict[str, Any]:
    found = segment(sequence, attempt, b"")
    sound = found["segment_id"].encode()
    return found | {"size_bytes": len(sound), "sha256": hashlib.sha256(sound).hexdigest()}


@pytest.mark.parametrize("takes_s", [0.0, 0.4])
def test_segments_are_listed_every_half_to_whole_second(takes_s: float, clock: VirtualClock) -> None:
    """Whether a list brings something or not, and however long an answer takes (R227)."""
    path = f"/v1/jobs/{JOB}/audio-segments"
    lists = [[spoken(each) for each in range(count)] for count in (0, 1, 2, 2, 3, 4, 4)]
    script = Timed(clock, streamed(lists), takes_s)
    with ScriptedService([script]) as service, client(service, clock) as tenuto:
        heard = list(tenuto.speech.create("x", model="m", stream=True).segments())

    assert 4 == len(heard) and 7 <= len(script.times[path])
    assert min(script.intervals(path)) >= 0.5 and min(script.pauses(path)) >= 0.5 - 1e-9
    assert takes_s > 0.1 or max(script.intervals(path)) <= 1.0
    # Half of the pauses hold the download of a segment or the read of the job.
    assert min(script.pauses()) >= LEAST_S


def test_a_preview_is_heard_in_order_once_and_to_its_end(clock: VirtualClock) -> None:
    """By `sequence`, which may begin anywhere and have gaps, each segment once, after a new attempt none of
    the dropped one, and the list once more after the end. The job is read when it is due (R221, R227)."""
    lists = [
        [],
        [spoken(3), spoken(1)],
        [spoken(3), spoken(1), spoken(0, "b")],
        [spoken(7), spoken(1, "b"), spoken(0, "b")],
        [spoken(0, "b"), spoken(1, "b"), spoken(9, "b"), spoken(6, "b")],
    ]
    script = Timed(clock, streamed(lists, retry_after="1.9"))
    with ScriptedService([script]) as service, client(service, clock) as tenuto:
        heard = list(tenuto.speech.create("x", model="m", stream=True).segments())
        fetched = [asked.path for asked in service.asked if asked.path.endswith("/content")]
        last = service.asked[-3].path

    assert [("a", 1), ("a", 3), ("b", 0), ("b", 1), ("b", 6), ("b", 9)] == [
        (one.segment.attempt_id, one.segment.sequence) for one in heard
    ]
    assert [2] == [number for number, one in enumerate(heard) if one.starts_over]
    assert len(fetched) == len(set(fetched)) and last.endswith("audio-segments")
    submitted, first_read = script.times["/v1/jobs"][0][1], script.times[f"/v1/jobs/{JOB}"][0][0]
    assert first_read - submitted >= 1.9


def test_a_preview_that_never_ends_is_given_up(clock: VirtualClock) -> None:
    """Two hours, as for every other wait (R223)."""
    script = Timed(clock, streamed([[], []] * 100), takes_s=600.0)
    with (
        ScriptedService([script]) as service,
        client(service, clock) as tenuto,
        pytest.raises(GaveUpWaiting, match="after 7200 s"),
    ):
        list(tenuto.speech.create("x", model="m", stream=True).segments())


@pytest.mark.parametrize("record", [{"kind": None}, {"kind": "image"}])
def test_what_was_asked_for_says_which_media_type_is_right(
    record: dict[str, Any], clock: VirtualClock
) -> None:
    """Speech is audio/wav, whatever the record says of itself; so nothing else is downloaded. Without a kind
    in the record one of the contract's three types is taken (R226)."""
    other = "image/png" if record["kind"] == "image" else "text/html"
    replies = [accepted(Retry_After="1"), succeeded(media_type=other, **record), content(media_type=other)]
    with ScriptedService(replies) as service, client(service, clock) as tenuto:
        job = tenuto.speech.create("x", model="m")
        with pytest.raises(ContentMismatch, match=f"{other}, not audio/wav"):
            job.read()
        asked = len(service.asked)
        unknown = tenuto.jobs.get(JOB)
        service._replies[:] = [succeeded(media_type="text/html", kind=None)]
        with pytest.raises(ContentMismatch, match="not audio/wav or application/json or image/png"):
            unknown.refresh().read()

    assert 2 == asked


def test_another_media_type_of_the_download_is_a_mismatch(clock: VirtualClock, tmp_path: Path) -> None:
    """The answer has to have the type of the record (R226)."""
    with (
        ScriptedService([accepted(), succeeded(), content(media_type="text/html")]) as service,
        client(service, clock, max_retries=1) as tenuto,
        pytest.raises(ContentMismatch, match="text/html, not audio/wav"),
    ):
        tenuto.speech.create("x", model="m").download(tmp_path / "x.wav")

    assert [] == list(tmp_path.iterdir())
