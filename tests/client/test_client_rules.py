"""The contract's rules for clients (R221–R230), each against answers that provoke it."""

import asyncio
import hashlib
import os
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from client.conftest import JOB, SOUND, START, VirtualClock, accepted, client, content, succeeded, told
from servers.callers import Caller
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
    Tenuto,
    UnknownState,
    downloads,
)

CONTENT = "/v1/artifacts/artifact_01jd4k0f5t8x0z2b4d6f8h0k2m/content"
LARGE = b"RIFF" + Random(5).randbytes(5_000_000)
CUT_AT = 2_700_000
BUSY = {"error": {"code": "rate_limited", "message": "Too many."}}


def segment(sequence: int, attempt: str, body: bytes) -> dict[str, Any]:
    return {
        "segment_id": f"segment_{attempt}_{sequence}",
        "attempt_id": attempt,
        "sequence": sequence,
        "media_type": "audio/wav",
        "size_bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "duration_ms": 500,
    }


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
        ({"Retry-After": "soon"}, 3.0),
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


def test_a_download_that_stays_wrong_leaves_nothing_behind(clock: VirtualClock, tmp_path: Path) -> None:
    """The place keeps what it had, no temporary file stays, no new job is made (R225)."""
    place = tmp_path / "x.wav"
    place.write_bytes(b"old")
    with (
        ScriptedService([accepted(), succeeded(), content(SOUND[:-1] + b"\0")]) as service,
        client(service, clock, max_retries=2) as tenuto,
        pytest.raises(ContentMismatch, match="SHA-256"),
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


def test_the_service_is_followed_by_both_clients(
    service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    """Against the service itself: one job each, followed, previewed and downloaded (R227)."""
    with Tenuto(caller.key, service.url) as tenuto:
        job = tenuto.speech.create("Hold the note for its full value.", lang="en", stream=True)
        first = [spoken.segment.sequence for spoken in job.segments()]
        job.download(tmp_path / "1.wav")

    async def follow() -> list[int]:
        async with AsyncTenuto(caller.key, service.url) as tenuto:
            job = await tenuto.speech.create("Hold the note for its full value.", lang="en", stream=True)
            heard = [spoken.segment.sequence async for spoken in job.segments()]
            await job.download(tmp_path / "2.wav")
            return heard

    second = asyncio.run(follow())

    assert [0, 1] == first == second
    assert (tmp_path / "1.wav").read_bytes() == (tmp_path / "2.wav").read_bytes()
    assert 2 == len(caller.newest())
