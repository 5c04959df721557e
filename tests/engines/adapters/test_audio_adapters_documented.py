"""docs/operations/engines.md against the manifests of the adapters: options, defaults, licences, examples."""

import re
from pathlib import Path

import pytest

from tenuto import config
from tenuto.features.recognition import kind as recognition
from tenuto.features.speech import parameters as speech
from tenuto.host.manifests import Manifest, adapters
from tenuto.kind.model import models

ROOT = Path(__file__).parents[3]
SECTIONS = dict(
    part.split("\n", 1)
    for part in (ROOT / "docs/operations/engines.md").read_text("utf-8").split("\n## ")[1:]
)
ADAPTERS = {
    "IndexTTS-2.5": ("indextts-2.5", "indextts-2.5-inference"),
    "MOSS-Transcribe-Diarize": ("moss-transcribe-diarize",),
    "VibeVoice-ASR": ("vibevoice-asr",),
    "faster-whisper": ("faster-whisper",),
    "Qwen3-ASR": ("qwen3-asr",),
    "Supertonic": ("supertonic",),
}
PARAMETERS = {"speech": speech.FIELDS, "recognition": recognition.FIELDS}


@pytest.mark.parametrize("heading", ADAPTERS)
def test_the_examples_of_settings_are_sound(heading: str, tmp_path: Path) -> None:
    """Each section's TOML loads as the settings of an operator, and gives the models that it names."""
    (example,) = re.findall(r"^```toml\n(.*?)^```$", SECTIONS[heading], re.MULTILINE | re.DOTALL)
    (tmp_path / "tenuto.toml").write_text(example)
    offered = models(config.load({}, file=tmp_path / "tenuto.toml"))
    named = re.findall(r'^\[models\."(.*)"\]$', example, re.MULTILINE)

    assert named
    assert set(named) <= set(offered)


@pytest.mark.parametrize("manifest", [adapters()[name] for names in ADAPTERS.values() for name in names])
def test_what_is_honoured_is_of_the_contract(manifest: Manifest) -> None:
    """Parameters of the kind alone; IndexTTS takes every one of speech, which come from it."""
    known = {field.name for field in PARAMETERS[manifest.kind]}

    assert set(manifest.honoured) <= known
    assert manifest.name != "indextts-2.5" or set(manifest.honoured) == known
    assert (manifest.kind == "speech") == manifest.licence.needs_acceptance


@pytest.mark.parametrize(("more", "tries"), [("", 2), ("metered = true", 1)])
def test_what_is_charged_for_is_never_heard_twice(more: str, tries: int, tmp_path: Path) -> None:
    """A doubtful part of a server that charges is warned of, not asked for again (P10)."""
    (tmp_path / "tenuto.toml").write_text(
        '[models."acme/heard"]\nadapter = "openai-transcription"\nupstream = "http://127.0.0.1:9/v1"\n' + more
    )
    model = models(config.load({}, file=tmp_path / "tenuto.toml"))["acme/heard"]

    assert (tries, tries == 2) == (model.entry.tries, model.rerunnable)
