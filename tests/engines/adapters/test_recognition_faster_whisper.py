"""faster-whisper through a real host: the package itself, with Whisper base; other sizes are other files."""

import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import soundfile
import soxr
from lab.quality.recordings import CACHE, pcm
from lab.quality.sounding import error_rate, sounding

import tenuto.features.voices
from engines.adapters.adapted import Adapted, cancelled
from tenuto.features.recognition.recognise_chunk import check_transcript, checked
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancelled, EngineSpec
from tenuto.host.manifests import adapters

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("program")]

VOICES = Path(tenuto.features.voices.__file__ or "").parent


@pytest.fixture(scope="module")
def model() -> Iterator[Adapted]:
    """The package in a process of its own, as an operator has it, on 8-bit numbers."""
    manifest = adapters()["faster-whisper"]
    chosen = {key: option.default for key, option in manifest.options.items()}
    told = {"model": "Systran/faster-whisper-base", "model_revision": "r1", "weights": {}, "threads": 2}
    folder = CACHE / "whisper-base"
    options = {**told, **chosen, "model_dir": str(folder), "device": "cpu", "compute_type": "int8"}
    host = ChildHost(EngineSpec(manifest.engine, sys.executable, options, installed=True))
    host.load()
    yield Adapted(host, folder)
    host.close()


@cache
def recorded(name: str) -> tuple[str, bytes]:
    """A sentence of one of the voices that ship, and its sound: PCM16, mono, 16 kHz."""
    table = tomllib.loads((VOICES / "builtin.toml").read_text("utf-8"))
    (line,) = [line for line in table["voice"] if line["recording"] == f"{name}.wav"]
    samples, rate = soundfile.read(VOICES / "recordings" / f"{name}.wav", dtype="float32")
    return line["text"], pcm(soxr.resample(samples, rate, 16_000))


@cache
def two() -> tuple[str, bytes]:
    """Two voices, and two seconds of nothing between them."""
    (one, first), (other, second) = recorded("martin"), recorded("edith")
    return f"{one} {other}", first + bytes(2 * 16_000 * 2) + second


def said(value: dict[str, Any]) -> str:
    return " ".join(one["text"] for one in value["segments"])


def test_every_word_is_written_with_times(model: Adapted) -> None:
    """A transcript in the language that was told, as the worker's check takes it (R126, R127)."""
    text, audio = two()
    result = model.run({"language": "en"}, {"audio": audio})
    kept = checked(result, "word_timestamps", len(audio) / 32_000)

    assert 0.05 >= error_rate(sounding("en", text), sounding("en", said(kept)))
    assert ([], [], []) == (
        kept["warnings"],
        kept["doubts"],
        check_transcript(kept["segments"], audio).sentences,
    )
    assert {"model_id": "Systran/faster-whisper-base", "model_revision": "r1"} == result.metadata


def test_a_language_that_nobody_knows_is_found_out(model: Adapted) -> None:
    """It is told what was asked for and what was heard (R114)."""
    value = model.heard(two()[1], language="Klingon")

    assert ["The language 'Klingon' is not known; en was heard."] == value["warnings"]
    assert value["segments"]


def test_a_cancel_is_heard(model: Adapted) -> None:
    with pytest.raises(Cancelled) as ended:
        model.run({"language": "en"}, {"audio": two()[1]}, cancelled=cancelled())

    assert (False, True) == (ended.value.lost, model.host.alive)
