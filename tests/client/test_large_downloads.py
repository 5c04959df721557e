"""Downloads of many blocks, which a thread hashes and writes while more arrive."""

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from client.conftest import VirtualClock, accepted, content, succeeded
from servers.scripted import Asked, Reply, ScriptedService
from tenuto_client import Tenuto

SOUND = b"RIFF" + Random(5).randbytes(5_000_000)
CUT_AT = 2_700_000


def rest(asked: Asked) -> Reply:
    """What a client that has some asks for, its last byte wrong."""
    start = int(asked.headers["range"].removeprefix("bytes=").removesuffix("-"))
    return content(SOUND[start:-1] + b"\0", status=206)


def test_what_breaks_off_and_what_is_damaged_ends_whole(clock: VirtualClock, tmp_path: Path) -> None:
    """A download is cut within a block, resumed, found to differ, and started over (R225)."""
    place = tmp_path / "x.wav"
    replies: list[Any] = [accepted(), succeeded(SOUND), content(SOUND, cut_at=CUT_AT), rest, content(SOUND)]
    with ScriptedService(replies) as service, Tenuto("tn_test", service.url, clock=clock) as tenuto:
        tenuto.speech.create("x", model="m").download(place)
        ranges = [asked.headers.get("range") for asked in service.asked[2:]]

    assert SOUND == place.read_bytes()
    assert [None, f"bytes={CUT_AT}-", None] == ranges
    assert [place] == list(tmp_path.iterdir())


def test_a_disk_that_fills_up_is_told_and_nothing_stays(clock: VirtualClock, tmp_path: Path) -> None:
    """The error names the file; the place keeps what it had, and no thread lives on (R225)."""
    place = tmp_path / "x.wav"
    place.write_bytes(b"old")
    before = set(threading.enumerate())
    with (
        ScriptedService([accepted(), succeeded(SOUND), content(SOUND)]) as service,
        Tenuto("tn_test", service.url, clock=clock) as tenuto,
    ):
        job = tenuto.speech.create("x", model="m")
        with files_of_at_most(2 << 20), pytest.raises(OSError, match=r"x\.wav"):
            job.download(place)
        left = [thread.name for thread in set(threading.enumerate()) - before if "_run" in thread.name]

    assert (b"old", [place]) == (place.read_bytes(), list(tmp_path.iterdir()))
    assert [] == left


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """This process cannot write a larger file meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
