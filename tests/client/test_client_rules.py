"""The contract's rules for clients (R221–R230), each against answers that provoke it."""

import asyncio
import hashlib
import os
from collections.abc import Callable
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from client.conftest import JOB, SOUND, START, VirtualClock, accepted, client, content, succeeded, told
from client.test_verbs import run
from servers.callers import ON_ONE_DATABASE, Caller
from servers.scripted import LOST, Asked, Reply, ScriptedService
from servers.service import RunningService
from tenuto_client import (
    AsyncTenuto,
    ContentMismatch,
    GaveUpWaiting,
    InvalidSetting,
    JobCancelled,
    JobError,
    JobFailed,
    RateLimited,
    RecoveryRequired,
    ResultMissing,
    ServiceFailed,
    ServiceUnreachable,
    UnknownState,
    downloads,
)

CONTENT = "/v1/artifacts/artifact_01jd4k0f5t8x0z2b4d6f8h0k2m/content"
LARGE = b"RIFF" + Random(5).randbytes(5_000_000)
CUT_AT = 2_700_000
BUSY = {"error": {"code": "rate_limited", "message": "Too many."}}


@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": format_datetime(START.replace(minute=1), usegmt=True)}, 60.0),
        (
            # The service's clock is an hour ahead of ours: what counts is the difference that it tells.
            {
                "Date": format_datetime(START.replace(hour=13), usegmt=True),
                "Retry-After": format_datetime(START.replace(hour=13, second=9), usegmt=True),
            },
            9.0,
        ),
        ({}, 3.0),
        ({"Retry-After": "0.2"}, 1.0),
        ({"Retry-After": format_datetime(START.replace(year=2020), usegmt=True)}, 1.0),
    ],
)
def test_polling_waits_as_the_service_says(
    headers: dict[str, str], waited: float, clock: VirtualClock
) -> None:
    """Seconds or an HTTP date; 3 s when missing or unreadable; never under 1 s; before each poll (R221)."""
    replies = [accepted(**headers), told("running", headers=headers), told("queued", headers=headers)]
    with ScriptedService([*replies, succeeded()]) as service, client(service, clock) as tenuto:
        tenuto.speech.create("x", model="m").wait()

    # A date is a moment: once it has passed, the least wait is left.
    least = 1.0 if "GMT" in headers.get("Retry-After", "") and "Date" not in headers else waited
    assert [waited, least, least] == pytest.approx(clock.slept)


def test_busy_answers_are_retried_a_limited_number_of_times(clock: VirtualClock) -> None:
    """After 429 and 503 it waits as told and sends the same bytes under the same key; five retries at most
    (R222)."""
    busy = Reply(429, BUSY, {"Retry-After": "2"})
    with (
        ScriptedService([busy, Reply(503, BUSY), accepted(), busy]) as service,
        client(service, clock) as tenuto,
    ):
        job = tenuto.speech.create("x", model="m")
        first = list(clock.slept)
        with pytest.raises(RateLimited) as refused:
            job.refresh()
        posts = [asked for asked in service.asked if asked.method == "POST"]

    assert [2.0, 3.0] == first
    assert 1 == len({(asked.key, asked.body) for asked in posts}) and len(posts) == 3
    assert 6 == len(service.asked) - len(posts)
    assert ("rate_limited", 2.0) == (refused.value.code, refused.value.retry_after_s)


@pytest.mark.parametrize("first", [LOST, Reply(503, BUSY, {"Retry-After": "2", "x-should-retry": "false"})])
def test_an_act_in_doubt_is_not_repeated(first: Reply, clock: VirtualClock) -> None:
    """There could be a second webhook. A deletion is asked for again, and was done."""
    gone = Reply(404, {"error": {"code": "not_found", "message": "No."}})
    with ScriptedService([first, LOST, gone]) as service, client(service, clock) as tenuto:
        with pytest.raises((ServiceFailed, ServiceUnreachable)):
            tenuto.webhooks.create("https://a.example/", ["job.succeeded"])
        tenuto.webhooks.delete("webhook_1")

    assert ["POST", "DELETE", "DELETE"] == [asked.method for asked in service.asked]


def test_a_wait_that_is_far_too_long_is_told_instead(clock: VirtualClock) -> None:
    """A refused request is kept for two hours, not for a day; its caller learns when to retry (R222)."""
    busy = [Reply(503, BUSY, {"Retry-After": seconds}) for seconds in ("1800", "86400")]
    with (
        ScriptedService(busy) as service,
        client(service, clock) as tenuto,
        pytest.raises(ServiceFailed, match="Too many") as refused,
    ):
        tenuto.speech.create("x", model="m")

    assert ([1800.0], 86400.0) == (clock.slept, refused.value.retry_after_s)


def test_waiting_gives_up_after_two_hours_and_continues_when_asked_again(clock: VirtualClock) -> None:
    """The same operation is read on; nothing is submitted again (R223)."""
    running = told("running", headers={"Retry-After": "60"})
    replies = [accepted(), *[running] * 125, succeeded()]
    with ScriptedService(replies) as service, client(service, clock) as tenuto:
        job = tenuto.speech.create("x", model="m")
        with pytest.raises(GaveUpWaiting) as gave_up:
            job.wait()
        waited = sum(clock.slept)
        job.wait()
        asked = service.asked

    assert 7200 == pytest.approx(waited)
    assert (JOB, "gave_up_waiting") == (gave_up.value.job_id, gave_up.value.code)
    assert "succeeded" == job.state
    assert [("POST", "/v1/jobs")] == [(a.method, a.path) for a in asked if a.method != "GET"]
    assert {f"/v1/jobs/{JOB}"} == {a.path for a in asked if a.method == "GET"}


def test_after_a_lost_answer_the_same_goes_under_the_same_key(clock: VirtualClock) -> None:
    """Every try has the same bytes and the same key, and the tries are limited (R224)."""
    with ScriptedService([LOST, LOST, accepted()]) as service, client(service, clock) as tenuto:
        job = tenuto.speech.create("x", model="m", idempotency_key="mine")
        sent = [(asked.key, asked.body) for asked in service.asked]
    with (
        ScriptedService([LOST]) as dead,
        client(dead, clock, max_retries=2) as tenuto,
        pytest.raises(ServiceUnreachable),
    ):
        tenuto.speech.create("x", model="m")

    assert JOB == job.id
    assert [("mine", b'{"model":"m","parameters":{"text":"x"}}')] * 3 == sent
    assert (3, 1) == (len(dead.asked), len({(asked.key, asked.body) for asked in dead.asked}))


def test_a_download_replaces_nothing_but_a_file(clock: VirtualClock, tmp_path: Path) -> None:
    """A pipe stays one, whatever the form of the result; the job can be downloaded elsewhere."""
    os.mkfifo(tmp_path / "pipe")
    with (
        ScriptedService([accepted(), succeeded(), content()]) as service,
        client(service, clock) as tenuto,
    ):
        job = tenuto.speech.create("x", model="m")
        for form in (None, "mp3"):
            with pytest.raises(InvalidSetting, match="pipe is not a regular file"):
                job.download(tmp_path / "pipe", form=form)
        with pytest.raises(InvalidSetting, match="pipe is not a regular file"):
            downloads.write(tmp_path / "pipe", b"a transcript")
        job.download(tmp_path / "x.wav")

    assert (tmp_path / "pipe").is_fifo() and SOUND == (tmp_path / "x.wav").read_bytes()
    assert ["pipe", "x.wav"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_download_that_breaks_off_or_is_damaged_is_repeated_and_nothing_else(
    clock: VirtualClock, tmp_path: Path
) -> None:
    """Of many blocks, which a thread writes while more arrive. What has arrived is not asked for again; wrong
    bytes and lengths begin anew, a service without ranges sends all, a store may be behind (R225)."""

    def rest(asked: Asked) -> Reply:
        start = int(asked.headers["range"].removeprefix("bytes=").removesuffix("-"))
        return content(LARGE[start:-1] + b"\0", status=206)

    absent = Reply(404, BUSY)
    first: list[Any] = [content(LARGE, cut_at=CUT_AT), rest, content(LARGE + b"x"), content(LARGE)]
    second = [content(LARGE, cut_at=300), absent, content(LARGE[:-9]), content(LARGE)]
    replies = [accepted(), succeeded(LARGE), *first, *second]
    with ScriptedService(replies) as service, client(service, clock) as tenuto:
        job = tenuto.speech.create("x", model="m")
        saved = [job.download(tmp_path / name).read_bytes() for name in ("1.wav", "2.wav")]
        asked = [(each.method, each.path, each.headers.get("range")) for each in service.asked]

    assert [LARGE] * 2 == saved and ["1.wav", "2.wav"] == sorted(path.name for path in tmp_path.iterdir())
    assert [("POST", "/v1/jobs", None), ("GET", f"/v1/jobs/{JOB}", None)] == asked[:2]
    ranges = [None, f"bytes={CUT_AT}-", None, None, None, "bytes=300-", None, None]
    assert [("GET", CONTENT, each) for each in ranges] == asked[2:]


def test_downloads_to_one_path_at_the_same_time_do_not_disturb_each_other(
    clock: VirtualClock, tmp_path: Path
) -> None:
    """Each has a temporary file of its own, and the file is complete when either ends (P6)."""
    heard = b'{"engines": {"segment_text": {"segments": [{"text": "Hold the note."}]}}}' + b" " * (3 << 20)

    async def both(url: str) -> None:
        async with AsyncTenuto("tn_a", url, journal=False, clock=clock) as tenuto:
            job = await tenuto.jobs.get(JOB)
            await asyncio.gather(*(job.download(tmp_path / "x", form="txt") for _ in range(8)))

    replies = [succeeded(heard, "application/json", kind="recognition"), content(heard, "application/json")]
    with ScriptedService(replies) as service:
        asyncio.run(both(service.url))

    assert b"Hold the note.\n" == (tmp_path / "x").read_bytes()
    assert ["x"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (content(SOUND[:-1] + b"\0"), "SHA-256"),
        (content(media_type="text/html"), "text/html, not audio/wav"),
    ],
)
def test_a_download_that_stays_wrong_leaves_nothing_behind(
    wrong: Reply, told: str, clock: VirtualClock, tmp_path: Path
) -> None:
    """The place keeps what it had, no temporary file stays, no new job is made (R225, R226)."""
    place = tmp_path / "x.wav"
    place.write_bytes(b"old")
    with (
        ScriptedService([accepted(), succeeded(), wrong]) as service,
        client(service, clock, max_retries=2) as tenuto,
        pytest.raises(ContentMismatch, match=told),
    ):
        tenuto.speech.create("x", model="m").download(place)

    assert (b"old", ["x.wav"]) == (place.read_bytes(), sorted(p.name for p in tmp_path.iterdir()))
    assert 1 == sum(asked.method == "POST" for asked in service.asked)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("failed", JobFailed),
        ("cancelled", JobCancelled),
        ("recovery_required", RecoveryRequired),
        ("resting", UnknownState),
        ("succeeded", ResultMissing),
    ],
)
def test_every_other_end_stops(
    state: str, error: type[JobError], clock: VirtualClock, tmp_path: Path
) -> None:
    """No further poll, no download, no other key; the error keeps the id (R228)."""
    with ScriptedService([accepted(), told(state)]) as service, client(service, clock) as tenuto:
        job = tenuto.speech.create("x", model="m")
        with pytest.raises(error) as ended:
            job.wait()
        with pytest.raises(error):
            job.download(tmp_path / "x.wav")
        asked = [(a.method, a.path) for a in service.asked]

    assert JOB == ended.value.job_id
    assert [("POST", "/v1/jobs"), ("GET", f"/v1/jobs/{JOB}")] == asked


def test_long_recordings_are_split_into_overlapping_parts(tmp_path: Path) -> None:
    """About ten minutes each, 8 s of overlap, cut where it is quiet; nothing is missing (R229)."""
    numpy = pytest.importorskip("numpy")
    import soundfile

    from tenuto_client.audio import RATE, split

    seconds = 25 * 60
    samples = numpy.tile(numpy.random.default_rng(7).integers(-3000, 3000, RATE, dtype="int16"), seconds)
    quiet = [593.25, 1177.5]
    for at in quiet:
        samples[round(at * RATE) : round((at + 0.3) * RATE)] = 0
    soundfile.write(tmp_path / "long.wav", samples, RATE)
    parts = split(tmp_path / "long.wav", tmp_path / "parts")
    read = [soundfile.read(part.path, dtype="int16")[0] for part in parts]

    assert [(0.0, seconds)] == [(parts[0].start_s, parts[-1].end_s)]
    assert all(580 <= part.end_s - part.start_s <= 600 for part in parts[:-1])
    assert all(quiet[n] <= parts[n].end_s <= quiet[n] + 0.3 for n in range(2))
    assert [8.0, 8.0] == [round(a.end_s - b.start_s, 3) for a, b in pairwise(parts)]
    assert all(
        numpy.array_equal(samples[round(part.start_s * RATE) :][: len(got)], got)
        for part, got in zip(parts, read, strict=True)
    )


def test_ids_are_encoded_in_paths(clock: VirtualClock) -> None:
    """Whatever an id is made of, it is one part of the path (R230)."""
    for odd, encoded in (("a/../b c?d#é", "a%2F..%2Fb%20c%3Fd%23%C3%A9"), ("..", "%2E%2E")):
        with ScriptedService([told("running", id=odd)]) as service, client(service, clock) as tenuto:
            job = tenuto.jobs.get(odd)
            job.cancel()

        assert odd == job.id
        assert [f"/v1/jobs/{encoded}", f"/v1/jobs/{encoded}/cancel"] == [each.path for each in service.asked]


@ON_ONE_DATABASE
def test_the_service_is_followed_by_the_client_for_asyncio(
    service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    """Against the service itself: one job, followed, previewed and downloaded (R227)."""

    async def follow() -> list[int]:
        async with AsyncTenuto(caller.key, service.url) as tenuto:
            job = await tenuto.speech.create("Hold the note for its full value.", lang="en", stream=True)
            heard = [spoken.segment.sequence async for spoken in job.segments()]
            await job.download(tmp_path / "x.wav")
            return heard

    assert [0, 1] == asyncio.run(follow())
    assert b"RIFF" == (tmp_path / "x.wav").read_bytes()[:4] and 1 == len(caller.newest())


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
        return [later[0] - earlier[1] for earlier, later in pairwise(self.times[path])]

    def intervals(self, path: str) -> list[float]:
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
    sound = f"segment_{attempt}_{sequence}".encode()
    return {
        "segment_id": sound.decode(),
        "attempt_id": attempt,
        "sequence": sequence,
        "media_type": "audio/wav",
        "size_bytes": len(sound),
        "sha256": hashlib.sha256(sound).hexdigest(),
        "duration_ms": 500,
    }


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
        service._replies[:] = [succeeded(media_type="text/html", kind=None)]
        with pytest.raises(ContentMismatch, match="not audio/wav or application/json or image/png"):
            tenuto.jobs.get(JOB).read()

    assert 2 == asked
