"""Makes the recordings of the synthetic built-in voices with the embedded speech model; run it as a module.

    python -m scripts.make_voices            writes the recordings and their hashes into tenuto/voices
    python -m scripts.make_voices --check    makes them again and says whether the bytes are the same

The model draws nothing: the same weights and libraries on the same kind of processor give the same bytes.
Needs the weights (`tenuto models pull`).
"""

import hashlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from tenuto.features.models.cache import default_cache, location
from tenuto.features.speech import parameters as speech
from tenuto.features.voices.rules import check_recording
from tenuto.host.registry import ENTRIES
from tenuto_kokoro import KokoroEngine

VOICES = Path(__file__).parents[1] / "packages" / "tenuto" / "src" / "tenuto" / "features" / "voices"
TABLE = VOICES / "builtin.toml"
ALL_BYTES = 2_700_000
"""What the recordings may take together: they travel with the package."""


class OneRun:
    """A run of the engine in this process; nothing cancels it and nobody listens."""

    run_id = "make_voices"
    inputs: dict[str, bytes] = {}  # noqa: RUF012 (never written)

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        return None

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        return None

    def check_cancelled(self) -> None:
        return None


def main() -> None:
    """Make every recording of the table."""
    check = sys.argv[1:] == ["--check"]
    text = TABLE.read_text("utf-8")
    engine = load()
    all_bytes, differing = 0, []
    for voice in tomllib.loads(text)["voice"]:
        recording = VOICES / "recordings" / voice["recording"]
        # A person's recording is not made here, only looked at.
        content = recording.read_bytes() if "reader" in voice else speak(engine, voice)
        sha256 = hashlib.sha256(content).hexdigest()
        all_bytes += len(content)
        if check or "reader" in voice:
            differing += [voice["recording"]] if sha256 != voice["sha256"] else []
            continue
        recording.write_bytes(content)
        line = re.escape(f'recording = "{voice["recording"]}"\n') + 'sha256 = "[0-9a-f]*"'
        text = re.sub(line, f'recording = "{voice["recording"]}"\nsha256 = "{sha256}"', text)
        print(f"{voice['recording']}: {check_recording(content).duration_ms} ms, {len(content)} bytes")
    if all_bytes > ALL_BYTES:
        raise SystemExit(f"{all_bytes} bytes are more than {ALL_BYTES}; choose shorter texts")
    if differing:
        raise SystemExit(f"made differently here: {', '.join(differing)}")
    if not check:
        TABLE.write_text(text, "utf-8")
    print(f"{all_bytes} bytes in all")


def load() -> KokoroEngine:
    """The engine, with one thread: sums in another order could round otherwise."""
    [entry] = [entry for entry in ENTRIES if entry.engine.startswith("tenuto_kokoro:")]
    weights = {name: str(location(default_cache(), name)) for name in entry.weights}
    return KokoroEngine({"weights": weights, "model_revision": entry.revision, "threads": 1})


def speak(engine: KokoroEngine, voice: dict[str, Any]) -> bytes:
    """The WAV of a voice's text in its style, with the emotion that it is a reference for."""
    emotion = {"emo_vector": voice["emotion"]} if "emotion" in voice else {}
    asked = speech.parse({"text": voice["text"], "lang": voice["language"], **emotion})
    spoken = {"voice": {"profile": {"style": voice["style"]}}, "emotion_voice": None}
    return engine.run(OneRun({**speech.resolved(asked, None), **spoken})).content


if __name__ == "__main__":
    main()
