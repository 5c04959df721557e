"""The pieces of both recognition engines that need no weights: windows, segments, clusters, loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto_engine_kit.languages import understood
from tenuto_whisper import placing, segments, speakers, timeline
from tenuto_whisper.chinese import simplified
from tenuto_whisper.given_language import tail_of
from tenuto_whisper.segments import Spoken
from tenuto_whisper.sound_events import FRAMES_PER_SECOND
from tenuto_whisper.timeline import Window
from tenuto_whisper.transcription import Word, is_made_up, loops, without_loops

LENGTH_S = 600.0
FRAMES = round(LENGTH_S) * FRAMES_PER_SECOND
KNOWN = {"zh", "en", "ja", "es", "ar", "fr", "he", "jw"}


@st.composite
def speech(draw: st.DrawFn) -> list[tuple[float, float]]:
    spans, at = [], 0.0
    for _ in range(draw(st.integers(0, 12))):
        at += draw(st.floats(0.3, 20))
        end = at + draw(st.floats(0.2, 70))
        spans.append((at, end))
        at = end
    return [span for span in spans if span[1] <= LENGTH_S]


def said(text: str, pauses: dict[int, float] | None = None, speaker: str = "S01") -> list[Spoken]:
    found, at = [], 0.0
    for number, word in enumerate(text.split()):
        at += (pauses or {}).get(number, 0.0)
        found.append(Spoken(Word(f" {word}", at, at + 0.4), speaker))
        at += 0.4
    return found


def texts(words: list[Spoken]) -> list[str]:
    return [segments.text(piece) for piece in segments.split(words)]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        *(
            (name, "zh")
            for name in ("zh", "ZH", " zh ", "zh-CN", "zh_Hant_TW", "Chinese", "chi", "cmn-Hans", "中文")
        ),
        *((name, "en") for name in ("en", "en-GB", "English", "eng", "ｅｎ")),
        *((name, "ja") for name in ("ja", "ja-JP", "jp", "Japanese", "日本語")),
        *((name, "es") for name in ("es", "es-419", "Spanish", "Español", "castellano")),
        *((name, "ar") for name in ("ar", "ar-EG", "Arabic", "العربية")),
        *((("fr", "fr"), ("French", "fr"), ("iw", "he"), ("jv", "jw"))),
        *((name, None) for name in (None, "", "-", "xx", "Klingon", "e", "zhongwenhua", "auto")),
    ],
)
def test_languages_have_many_names(said: str | None, code: str | None) -> None:
    """Codes of two and three letters, tags with a region, names; anything else is not known."""
    assert code == understood(said, KNOWN)


def test_traditional_characters_become_simplified() -> None:
    assert "图书馆开门 café 123" == simplified("圖書館開門 café 123")


def test_voices_are_where_speech_or_singing_is_likely() -> None:
    probabilities = np.zeros((1000, 3), np.float32)
    probabilities[100:200, 0] = probabilities[220:300, 1] = probabilities[500:505, 0] = 0.9
    probabilities[600:900, 2] = 0.9

    assert [(1.0, 3.0)] == timeline.voices(probabilities)


@given(speech())
def test_windows_hold_all_speech_once_and_are_short_enough(spans: list[tuple[float, float]]) -> None:
    levels = np.random.default_rng(len(spans)).uniform(-60, 0, FRAMES).astype(np.float32)
    found = timeline.windows(spans, levels, LENGTH_S)
    packed = [span for window in found for span in window.speech]
    joined: list[tuple[float, float]] = []
    for start, end in packed:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))

    assert spans == joined
    assert all(window.end - window.start <= timeline.WINDOW_S + 1e-6 for window in found)
    assert all(0 <= window.start < window.end <= LENGTH_S for window in found)
    assert all(one.end <= two.speech[0][0] for one, two in itertools.pairwise(found))
    assert all(one.speech[-1][1] <= two.start for one, two in itertools.pairwise(found))


def test_a_long_pause_parts_two_windows() -> None:
    spans, levels = [(1.0, 10.0), (13.0, 20.0), (25.0, 26.0)], np.zeros(FRAMES, np.float32)

    assert [spans[:1], spans[1:2], spans[2:]] == [
        list(window.speech) for window in timeline.windows(spans, levels, LENGTH_S)
    ]
    assert [spans[:2], spans[2:]] == [
        list(window.speech) for window in timeline.windows(spans, levels, LENGTH_S, 4.0)
    ]


def test_speech_without_a_pause_is_cut_where_it_is_quiet() -> None:
    levels = np.zeros(FRAMES, np.float32)
    levels[2200:2230] = levels[1000:1030] = -40
    first, second, *_ = timeline.windows([(0.0, 60.0)], levels, LENGTH_S)

    assert 22 < first.end < 22.3
    assert first.end == second.start


def test_speech_without_words_is_found() -> None:
    window = Window(0, 20, ((0, 10), (12, 20)))

    assert [(0, 3), (5, 10)] == timeline.unheard(window, [(3, 5), (12, 19)], 2.5)
    assert [(0, 10), (12, 20)] == timeline.unheard(window, [], 2.5)
    assert [] == timeline.unheard(window, [(1, 9), (13, 18)], 2.5)


def test_speech_behind_the_last_segment_is_a_tail() -> None:
    window = Window(0, 29.2, ((0, 20), (25, 29)))

    assert Window(24, 29.2, ((25, 29),)) == tail_of(window, 24)
    assert Window(28, 29.2, ((28, 29),)) == tail_of(window, 28)
    assert tail_of(window, 28.6) is None


def test_a_word_stretched_over_a_sentence_that_was_left_out_stays_with_its_own() -> None:
    """Its sentence keeps its order; the speech without words shows, at either end of the sentence."""
    late = [Word(" The", 1, 4), Word(" old", 4.7, 7.9), Word(" man", 7.9, 8.2), Word(" sat.", 8.2, 8.6)]
    early = [Word(" He", 0, 0.3), Word(" saw", 0.3, 0.6), Word(" it.", 0.6, 4.5)]
    window = Window(0, 9, ((0.0, 0.9), (1.0, 8.6)))
    drawn = placing.placed(late, window)

    assert [" The", " old", " man", " sat."] == [word.text for word in drawn]
    assert abs(drawn[0].start - 6.7) < 1e-6
    assert [(1.0, drawn[0].start)] == timeline.unheard(
        Window(1, 9, ((1.0, 8.6),)), [(word.start, word.end) for word in drawn], 2.0
    )
    assert max(word.end for word in placing.placed(early, window)) <= 1.2 + 1e-6


def test_a_segment_is_a_sentence_or_a_breath_of_one_person() -> None:
    other = [Spoken(Word(" Yes.", 100, 100.4), "S02"), Spoken(Word(" Who?", 100.5, 100.9), "S01")]

    assert ["He met Mr. Brown today.", "It was late."] == texts(said("He met Mr. Brown today. It was late."))
    assert ["one two three", "four five"] == texts(said("one two three four five", {3: 1.0}))
    assert ["Yes.", "Who?"] == texts(other)
    assert ["增长了12.5%。"] == texts(
        [Spoken(Word(text, at, at + 0.9), "S01") for at, text in enumerate(("增长了", "12.", "5%。"))]
    )
    assert [] == texts([])


def test_a_long_segment_is_cut_at_a_clause() -> None:
    long = "and so it went on, day after day, " * 9
    found = texts(said(long))

    assert " ".join(long.split()) == " ".join(found)
    assert all(0.4 * len(text.split()) <= segments.LONGEST_S for text in found)
    assert all(text.endswith(",") for text in found)


def test_words_are_grouped_evenly_within_a_breath() -> None:
    words = [one.word for one in said("w " * 8 + "v " * 3, {8: 0.5})]
    found = speakers.groups(words)

    assert [(0, 4), (4, 8), (8, 11)] == [(group.first, group.last) for group in found]
    assert len(speakers.clip(np.zeros(160_000, np.float32), found[2])) <= 1.3 * 16_000


@pytest.mark.parametrize("persons", [1, 2, 5])
def test_voices_are_clustered(persons: int) -> None:
    random = np.random.default_rng(persons)
    truth = random.integers(0, persons, 60)
    truth[:persons] = np.arange(persons)
    points = np.eye(256, dtype=np.float32)[truth] + random.normal(0, 0.015, (60, 256)).astype(np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    found = speakers.cluster(points, speakers.APART)

    assert persons == len(set(found))
    assert persons == len(set(zip(found, truth.tolist(), strict=True)))


def never(token: int) -> bool:
    return False


@given(st.lists(st.integers(0, 5), max_size=12), st.lists(st.integers(6, 9), min_size=1, max_size=4))
def test_a_loop_is_left_once(before: list[int], loop: list[int]) -> None:
    tokens = [*range(20, 20 + len(before)), *(loop * 7)]
    found = without_loops(tokens, never)

    assert list(range(20, 20 + len(before))) == found[: len(before)]
    assert len(found) <= len(before) + len(loop)
    assert [1, 2, 1, 2, 1, 2, 3] == without_loops([1, 2, 1, 2, 1, 2, 3], never)


@pytest.mark.parametrize(
    ("text", "looping"),
    [
        ("Thank you. Thank you. Thank you. Thank you. Thank you. Thank you.", True),
        ("我们去吧我们去吧我们去吧我们去吧我们去吧", True),
        ("No, no, no, he said, and went away.", False),
        ("哈哈哈哈哈哈", False),
        ("It was the best of times, it was the worst of times.", False),
    ],
)
def test_text_that_repeats_itself_is_a_loop(text: str, looping: bool) -> None:
    assert looping == loops(text)


def test_only_unsure_words_in_silence_are_made_up() -> None:
    assert [True, False, False] == [is_made_up(*pair) for pair in ((-1.5, 0.9), (-1.5, 0.1), (-0.3, 0.9))]
