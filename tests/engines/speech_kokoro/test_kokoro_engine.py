"""The real engine with its real weights, on short texts."""

import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts.fit_loudness import TARGET_LUFS
from scripts.loudness import loudness, true_peak

import tenuto.features.voices
import tenuto_kokoro
from engines.runs import RecordedRun
from servers.cores import ENGINE_THREADS
from tenuto.features.models.cache import default_cache
from tenuto.job.audio_segments import MAX_SEGMENTS
from tenuto_engine import Cancelled, EngineError, Result
from tenuto_kokoro import KokoroEngine, audio, likeness
from tenuto_kokoro.styles import ORIGINAL_VOICES, read_style
from tenuto_kokoro.voices import SILENT_WARNING

CACHE = default_cache()
WEIGHTS = ("kokoro-v1.0-int8.onnx", "kokoro-voices", "kokoro-vocabulary", "text2tashkeel", "resemblyzer.pt")
PARAMETERS: dict[str, Any] = {
    "lang": "zh",
    "stream": False,
    "voice_id": None,
    "duration_factor": 1,
    "interval_silence": 200,
    "max_text_tokens_per_segment": 120,
    "text_normalization": True,
}
RECORDINGS = Path(tenuto.features.voices.__file__ or "").parent / "recordings"
GREETING = "你好。"
STREAMED: dict[str, Any] = {
    "text": "明天见。他来了。谢谢你。",
    "stream": True,
    "interval_silence": 350,
    "max_text_tokens_per_segment": 20,
}

pytestmark = pytest.mark.real_engine


class SpokenRun(RecordedRun):
    """A run that can be cancelled after some segments."""

    def __init__(self, cancel_after: int | None = None, **parameters: Any) -> None:
        super().__init__(
            {**PARAMETERS, **parameters},
            ends=lambda run: cancel_after is not None and len(run.steps) >= cancel_after,
        )

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        assert metadata["duration_ms"] == audio.duration_ms(content[44:])
        super().segment(content, metadata)


@cache
def engine() -> KokoroEngine:
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    return KokoroEngine({"weights": weights, "model_revision": "r1", "threads": ENGINE_THREADS})


def spoken(text: str, **parameters: Any) -> Result:
    return engine().run(SpokenRun(text=text, **parameters))


@cache
def greeting() -> Result:
    """What several tests compare with: the original voice, nothing asked for."""
    return spoken(GREETING)


@cache
def streamed() -> tuple[SpokenRun, Result]:
    run = SpokenRun(**STREAMED)
    return run, engine().run(run)


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("zh", "我有2台A4打印机。"),
        ("en", "It is 9:30."),
        ("ja", "こんにちは、世界。"),
        ("es", "Hola, mundo."),
        ("ar", "مرحبا بالعالم."),
    ],
)
def test_every_language_is_spoken(lang: str, text: str) -> None:
    result = spoken(text, lang=lang)
    samples = np.frombuffer(result.content[44:], "<i2").astype(int)

    assert struct.pack("<4sI4s", b"RIFF", len(result.content) - 8, b"WAVE") == result.content[:12]
    assert (1, 24_000, 48_000, 2, 16) == struct.unpack_from("<HIIHH", result.content, 22)
    assert result.duration_ms == result.metadata["duration_ms"] == round(len(samples) / 24)
    assert 700 < (result.duration_ms or 0) < 9000
    assert abs(loudness(samples / 32_768, audio.SAMPLE_RATE) - TARGET_LUFS) <= 2.5
    assert true_peak(samples / 32_768, audio.SAMPLE_RATE) <= -1
    assert [] == result.metadata["warnings"]


def test_segments_make_up_the_whole_with_the_pause_at_the_head_of_each_but_the_first() -> None:
    run, result = streamed()
    pause = audio.silence(350)

    assert result.content[44:] == b"".join(segment[44:] for segment in run.segments)
    assert result.metadata["segments"] == len(run.segments) >= 2
    assert all(segment[44:].startswith(pause) for segment in run.segments[1:])
    assert not run.segments[0][44:].startswith(pause)
    assert ("synthesis", len(run.segments), len(run.segments), "segments") == run.steps[-1]


@pytest.mark.variant("model")
def test_a_text_of_too_many_segments_has_some_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preview stays within its limit, the result has the same samples, and a warning says so (R62)."""
    assert MAX_SEGMENTS == tenuto_kokoro.MOST_SEGMENTS
    every, usual = streamed()
    monkeypatch.setattr(tenuto_kokoro, "MOST_SEGMENTS", 2)
    few = SpokenRun(**STREAMED)
    result = engine().run(few)

    assert len(every.segments) > 2 == len(few.segments) == result.metadata["segments"]
    assert usual.content == result.content
    assert result.content[44:] == b"".join(segment[44:] for segment in few.segments)
    assert not usual.metadata["warnings"]
    assert ["neighbours were joined" in warning for warning in result.metadata["warnings"]] == [True]


@pytest.mark.variant("model")
def test_streaming_changes_nothing_in_the_result_and_neither_does_a_second_run() -> None:
    assert greeting().content == spoken(GREETING, stream=True).content


@pytest.mark.variant("model")
def test_a_named_voice_speaks_in_its_own_style() -> None:
    def by(preset: str) -> bytes:
        voice = {"voice_id": "v", "kind": "official", "profile": {"style": preset}, "profile_version": "1"}
        return spoken(GREETING, voice=voice).content

    assert greeting().content == by("zf_xiaoxiao")
    assert greeting().content != by("zm_yunyang")


def test_what_cannot_be_spoken_is_left_out_with_a_warning() -> None:
    """So is markup, which is read as text: a caller who writes SSML learns it (R101)."""
    left_out, markup = spoken("你😀好😀。"), spoken("你好<break/>。")

    assert ["Characters that cannot be spoken were left out: 😀"] == left_out.metadata["warnings"]
    assert ["markup is not supported" in warning for warning in markup.metadata["warnings"]] == [True]
    assert [] == spoken("<行|HANG2>，3<5。").metadata["warnings"]


@pytest.mark.parametrize("text", ["😀", "……", "<>", "Привет", "っ", "\u200d\u200f"])
def test_nothing_to_speak_is_an_error(text: str) -> None:
    with pytest.raises(EngineError) as raised:
        spoken(text)

    assert "nothing_to_speak" == raised.value.code
    assert not text.isalpha() or text in "っー" or text[:2] in raised.value.message.replace(" ", "")
    assert not raised.value.transient


def test_a_cancelled_run_stops_between_segments() -> None:
    run = SpokenRun(
        cancel_after=1, text="今天天气很好。我们去公园。明天再见。", max_text_tokens_per_segment=20
    )
    with pytest.raises(Cancelled):
        engine().run(run)

    assert 1 == len(run.steps)


def test_a_voice_of_two_presets_is_their_mean() -> None:
    """The original voice of Arabic; a preset by itself is the file's own numbers."""
    first, second = (read_style(CACHE / "kokoro-voices", name) for name in ORIGINAL_VOICES["ar"].split("+"))

    assert (CACHE / "kokoro-voices" / "if_sara.bin").read_bytes() == first.tobytes()
    assert np.allclose((first + second) / 2, read_style(CACHE / "kokoro-voices", ORIGINAL_VOICES["ar"]))


def voiced(content: bytes, **parameters: Any) -> SpokenRun:
    """A run in the voice of a recording."""
    voice: dict[str, Any] = {"voice_id": "v", "kind": "own", "profile": {}, "profile_version": None}
    run = SpokenRun(lang="en", text="Hold it.", voice=voice, **parameters)
    run.inputs = {"voice": content}
    return run


@pytest.mark.variant("model")
def test_a_recording_changes_the_speech_and_the_same_recording_gives_the_same() -> None:
    """An own voice is no decoration, run after run alike; silence is nobody's voice."""
    martin, edith = ((RECORDINGS / f"{name}.wav").read_bytes() for name in ("martin", "edith"))
    again = voiced(martin, stream=True)
    spoken, other, silent = (
        engine().run(voiced(content)) for content in (martin, edith, audio.wav(audio.silence(1000)))
    )

    assert spoken.content == engine().run(again).content
    assert spoken.content[44:] == b"".join(segment[44:] for segment in again.segments)
    assert 3 == len({spoken.content, other.content, silent.content})
    assert silent.content == engine().run(SpokenRun(lang="en", text="Hold it.")).content
    assert [SILENT_WARNING] == silent.metadata["warnings"]


def test_weights_of_voices_stay_near_the_voices() -> None:
    """However far an embedding is from all that were fitted, a mixture's weights sum to 1 and are bounded."""
    with np.load(likeness.FITTED) as fitted:
        halves = likeness.weights_of(np.full(256, 9, np.float32), fitted)
        count = len(fitted["names"])

    assert 54 == count
    for weights in halves:
        assert abs(float(weights.sum()) - 1) < 0.01
        assert float(np.linalg.norm(weights - 1 / count)) < likeness.FURTHEST + 0.01
