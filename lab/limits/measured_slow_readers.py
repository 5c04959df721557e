"""Sound that is read slowly: it takes no file and little memory, however many read it (P14)."""

import json
import time
from contextlib import ExitStack

import httpx2
import pytest
from lab.limits.conftest import resident_bytes

from limits.conftest import Refusals
from limits.test_slow_renditions import SPEECH, TEXT, opened, scratch_bytes, slow, sound, tight
from servers.callers import Caller, Operator

READERS = 12
MOST_GROWTH_BYTES = 150 << 20
__all__ = ["slow", "sound", "tight"]
"""Fixtures that the tests share with those of the limits."""


def test_sound_that_is_stored_as_it_is_sent_takes_no_file(
    tight: tuple[Operator, Refusals], slow: Caller, sound: str
) -> None:
    """PCM, however many read it slowly; it is the stored samples."""
    operator, _ = tight
    whole = slow.get(f"{sound}/rendition?form=pcm")
    stored = slow.get(f"{sound}/content").content
    before = resident_bytes(operator.service)
    with ExitStack() as stack:
        lines = [opened(slow, stack, "GET", f"{sound}/rendition?form=pcm") for _ in range(READERS)]
        assert [b"HTTP/1.1 200"] * READERS == [line.recv(12) for line in lines]
        time.sleep(3)
        taken, grown = scratch_bytes(operator), resident_bytes(operator.service) - before

    assert stored[44:] == whole.content and "audio/pcm" == whole.headers["content-type"]
    assert not any(taken.values())
    assert grown < MOST_GROWTH_BYTES, grown


@pytest.mark.parametrize("form", ["wav", "pcm"])
def test_a_long_text_that_is_sent_again_takes_no_file(
    tight: tuple[Operator, Refusals], slow: Caller, form: str
) -> None:
    """Its jobs' sound, joined or streamed: however many read it slowly, a piece of it is in memory."""
    operator, _ = tight
    asked = {"model": "fake/speech", "input": TEXT * 3, "voice": "alloy", "speed": 0.5}
    body = json.dumps(asked | {"response_format": form}).encode()
    headers = {"Content-Type": "application/json", "Idempotency-Key": "one"}
    first = httpx2.post(
        f"{operator.service.url}{SPEECH}",
        headers=headers | {"Authorization": f"Bearer {slow.key}"},
        content=body,
        timeout=300,
    )
    before = resident_bytes(operator.service)
    with ExitStack() as stack:
        lines = [opened(slow, stack, "POST", SPEECH, body) for _ in range(READERS)]
        assert [b"HTTP/1.1 200"] * READERS == [line.recv(12) for line in lines]
        time.sleep(3)
        taken, grown = scratch_bytes(operator), resident_bytes(operator.service) - before

    assert 200 == first.status_code and len(first.content) > 100 << 20
    assert not any(taken.values())
    assert grown < MOST_GROWTH_BYTES, grown
