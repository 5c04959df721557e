"""The models of the fake engines."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tenuto.host.registry import CHAT_HONOURED, SEGMENT_TEXT, WORD_TIMESTAMPS, EngineEntry, composed

LANGUAGES = ("zh", "en", "ja", "es", "ar")
FOLDER = str(Path(__file__).parent)


def fakes() -> tuple[EngineEntry, ...]:
    """All of them, which are listed only among themselves."""
    spoken = ("text", "stream", "duration_factor", "interval_silence")
    drawn = ("prompt", "width", "height", "num_inference_steps", "guidance_scale", "seed")
    size = {"width": 512, "height": 512, "num_inference_steps": 20, "guidance_scale": 7.5}
    first = _fake(
        "fake/segment-text",
        "recognition",
        "fake_recognition:FakeSegmentText",
        ("source_offset_seconds",),
        role=SEGMENT_TEXT,
    )
    second = _fake(
        "fake/word-timestamps",
        "recognition",
        "fake_recognition:FakeWordTimestamps",
        ("language", "source_offset_seconds"),
        role=WORD_TIMESTAMPS,
    )
    return (
        _fake("fake/speech", "speech", "fake_speech:FakeSpeech", spoken, concurrency=16),
        _fake(
            "fake/metered-speech",
            "speech",
            "fake_speech:FakeMetered",
            spoken,
            concurrency=16,
            rerunnable=False,
        ),
        first,
        second,
        replace(composed("fake/dual-recognition", (first, second)), fake=True),
        _fake("fake/image", "image", "fake_image:FakeImage", drawn, languages=("zh", "en"), defaults=size),
        _fake("fake/chat", "chat", "fake_chat:FakeChat", CHAT_HONOURED, concurrency=4),
    )


def _fake(model: str, kind: str, engine: str, honoured: tuple[str, ...], **more: Any) -> EngineEntry:
    return EngineEntry(
        model=model,
        kind=kind,
        engine=engine,
        revision="1",
        honoured=honoured,
        licence="Apache-2.0",
        fake=True,
        folder=FOLDER,
        **{"languages": LANGUAGES, **more},
    )
