"""Which emotion a run asks for, and what it does to the style, the pace and the speech."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.features.speech import parameters as speech
from tenuto_kokoro import audio, emotion_text
from tenuto_kokoro.emotion import EMOTIONS, LIMITS, SHIFTS, Emotion, moved, wished
from tenuto_kokoro.styles import PROSODY, STYLE_SHAPE, TIMBRE

TEXTS = Path(__file__).parents[3] / "lab" / "quality" / "emotion_texts.tsv"
RATE = audio.SAMPLE_RATE
NONE = {"emo_vector": None, "use_emo_text": False, "emo_text": None, "use_random": False, "text": "A."}


def asked(inputs: dict[str, bytes] | None = None, run_id: str = "run", **parameters: Any) -> Emotion | None:
    return wished({**NONE, **parameters}, inputs or {}, run_id)


def only(name: str, strength: float = 1.0) -> list[float]:
    return [strength if other == name else 0.0 for other in EMOTIONS]


def test_the_order_of_the_emotions_is_the_contracts() -> None:
    """Engine and parameter checks count the same eight in the same order (R79)."""
    assert speech.EMOTIONS == EMOTIONS


def test_nothing_asked_is_nothing_done() -> None:
    """No mode, no strength at all, no alpha, a text without a word of emotion (R78)."""
    assert asked() is None
    assert asked(emo_vector=[0.0] * 8) is None
    assert asked(emo_vector=only("happy"), emo_alpha=0) is None
    assert asked(use_emo_text=True, text="The report has twelve pages.") is None


@given(st.lists(st.floats(0, 1), min_size=8, max_size=8), st.floats(0, 1), st.booleans())
def test_no_shift_leaves_the_limits(vector: list[float], alpha: float, is_random: bool) -> None:
    found = asked(emo_vector=vector, emo_alpha=alpha, use_random=is_random)

    assert found is None or bool((np.abs(found.shift) <= LIMITS).all())
    assert found is None or sum(found.strengths or ()) <= 1.0001


def test_the_text_speaks_for_itself_unless_another_is_given() -> None:
    """`emo_text` goes before `text` (R80, R81)."""
    own = asked(use_emo_text=True, text="I am so happy!")
    other = asked(use_emo_text=True, text="I am so happy!", emo_text="She was furious.")

    assert own is not None
    assert other is not None
    assert only("happy") == [round(strength) for strength in own.strengths or ()]
    assert "angry" == EMOTIONS[int(np.argmax(other.strengths or ()))]


@pytest.mark.parametrize("line", TEXTS.read_text("utf-8").splitlines())
def test_the_words_of_a_text_tell_its_emotion(line: str) -> None:
    """Sentences of five languages that the lists were not written from (R80)."""
    name, _, text = line.split("\t")
    found = emotion_text.strengths(text, EMOTIONS)

    assert name == (EMOTIONS[int(np.argmax(found))] if any(found) else "none")


def test_a_denied_emotion_is_none() -> None:
    assert not any(emotion_text.strengths("I am not happy with it.", EMOTIONS))
    assert not any(emotion_text.strengths("彼は怒っていない。", EMOTIONS))
    assert any(emotion_text.strengths("No, I am happy with it.", EMOTIONS))


def test_a_random_emotion_is_the_runs_own() -> None:
    """The same run draws the same, others draw others; with a mode its emotion stays (R83)."""
    first, again = (asked(use_random=True, run_id="attempt_1") for _ in range(2))
    drawn = [asked(use_random=True, run_id=f"attempt_{number}") for number in range(40)]
    manner = asked(use_random=True, emo_vector=only("sad"))

    assert first is not None
    assert again is not None
    assert manner is not None
    assert first.described() == again.described()
    assert 8 == len({int(np.argmax(found.strengths)) for found in drawn if found and found.strengths})
    assert tuple(only("sad")) == manner.strengths
    assert not np.allclose(SHIFTS[2], manner.shift)
    assert bool((np.sign(SHIFTS[2]) == np.sign(manner.shift)).all())


def recording(pitch_hz: float, swing: float, syllables: float) -> bytes:
    """Two seconds of a voice-like sound that swings about a pitch and swells so many times a second."""
    at = np.arange(2 * RATE) / RATE
    phase = 2 * np.pi * np.cumsum(pitch_hz * 2 ** (swing / 12 * np.sin(2 * np.pi * 1.5 * at))) / RATE
    swell = np.sin(np.pi * syllables * at) ** 2 + 0.02
    sound = swell * sum(np.sin(k * phase) / k for k in range(1, 11)) / 4
    return audio.wav(audio.pcm(sound.astype(np.float32)))


def test_a_recordings_prosody_is_taken_over() -> None:
    """High, lively and fast against low, flat and slow: the shift has the signs of the voice (R77)."""
    voice = {"voice_id": "v", "kind": "own", "profile": {}}
    lively = asked({"emotion_voice": recording(260, 7.5, 6)}, emotion_voice=voice)
    flat = asked({"emotion_voice": recording(95, 1.0, 2.2)}, emotion_voice=voice)

    assert lively is not None
    assert flat is not None
    assert lively.strengths is None
    assert [1, 1, 0, -1] == list(np.sign(lively.shift))
    assert [-1, -1, 0, 1] == list(np.sign(flat.shift))


def test_a_style_is_moved_and_the_given_one_is_not() -> None:
    """Melody in the prosody half, loudness in the timbre half, every row alike."""
    style = np.zeros(STYLE_SHAPE, np.float32)
    found = moved(style, Emotion("emo_vector", None, np.array([2.0, 0.5, 0.0, 0.3])))
    loud = moved(style, Emotion("emo_vector", None, np.array([0.0, 0.0, 3.0, 0.3])))

    assert not style.any()
    assert found[..., PROSODY].any()
    assert not found[..., TIMBRE].any()
    assert loud[..., TIMBRE].any()
    assert not loud[..., PROSODY].any()
    assert bool((found == found[0]).all())
