"""Kokoro in OpenVINO beside ONNX Runtime: the rewritten model, the same samples again, and the choice."""

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from engines.speech_kokoro.test_kokoro_engine import WEIGHTS, RecordedRun
from servers.cores import ENGINE_THREADS
from tenuto.weights.cache import default_cache
from tenuto_engine import EngineError, Result
from tenuto_kokoro import KokoroEngine, graph, operations, products, runtimes
from tenuto_kokoro.runtimes import AUTO, COMPILED, DECODED, DECODER_SHA256, ONNXRUNTIME, OPENVINO
from tenuto_kokoro.styles import read_style

CACHE = default_cache()
MODEL = CACHE / "kokoro-v1.0-int8.onnx"
SENTENCES = {
    "zh": "他把手机忘在出租车上了。",
    "en": "The bridge had to be repaired.",
    "ja": "歴史を勉強しています。",
    "es": "Todos entregaron el trabajo a tiempo.",
    "ar": "المدرسة بالقرب من بيتنا.",
}

pytestmark = pytest.mark.real_engine

needs_openvino = pytest.mark.skipif(bool(runtimes.lacking()), reason="OpenVINO is for other processors")


@cache
def engine(runtime: str) -> KokoroEngine:
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    return KokoroEngine({"weights": weights, "threads": ENGINE_THREADS, "runtime": runtime})


def spoken(runtime: str, **parameters: Any) -> Result:
    return engine(runtime).run(RecordedRun(**parameters))


def test_the_rewritten_decoder_is_the_same_everywhere() -> None:
    """Bytes that depend on the weights and on the package alone, like weights that were downloaded. What was
    compiled before is used by this hash: it must change with every change of the rewriting."""
    content = graph.part(MODEL, inputs=DECODED, rewrite=operations.fast)

    assert DECODER_SHA256 == hashlib.sha256(content).hexdigest()


def test_the_square_of_a_sine_is_right() -> None:
    """The steps that replace it, on angles far beyond those of the model."""
    angles = np.linspace(-100, 100, 100_001, dtype=np.float32)
    steps = {"Mul": np.multiply, "Mod": np.fmod, "Add": np.add, "Pow": np.power}
    found = angles
    for kind, operand in operations.SINE_SQUARED:
        found = np.abs(found) if operand is None else steps[kind](found, np.float32(operand))

    assert np.abs(found - np.sin(angles.astype(np.float64)) ** 2).max() < 5e-5


@pytest.mark.variant("model")
@needs_openvino
@pytest.mark.parametrize("lang", SENTENCES)
def test_both_runtimes_speak_alike(lang: str) -> None:
    """As long, since durations are computed alike but for silence that is cut, and as loud to half a decibel:
    it was up to 1.6 dB while a phase of the harmonic source depended on rounding (0054)."""
    results = [spoken(runtime, lang=lang, text=SENTENCES[lang]) for runtime in (ONNXRUNTIME, OPENVINO)]
    sounds = [np.frombuffer(result.content[44:], "<i2").astype(np.float64) for result in results]
    levels = [10 * np.log10(np.mean(sound**2)) for sound in sounds]

    assert abs(len(sounds[0]) - len(sounds[1])) < 0.03 * len(sounds[0])
    assert abs(levels[0] - levels[1]) < 0.5


@pytest.mark.variant("model")
@needs_openvino
def test_the_decoder_is_the_same_function_in_both_runtimes() -> None:
    """In floating point, with the same inputs: when OpenVINO computed the harmonic source, too, its rounding
    changed the angles of weak frequencies, and Chinese was understood worse (0054)."""
    import openvino

    tokens = np.array([[0, *range(43, 73), 0]], np.int64)
    style = read_style(CACHE / "kokoro-voices", "zf_xiaoxiao")[tokens.size - 3]
    feed: dict[str, Any] = {"tokens": tokens, "style": style, "speed": np.ones(1, np.float32)}
    encoder = onnxruntime.InferenceSession(graph.part(MODEL, list(DECODED)))
    given = dict(zip(DECODED, encoder.run(None, feed), strict=True)) | {"style": style}
    decoder = graph.part(MODEL, inputs=DECODED, rewrite=partial(operations.fast, ranges={}))
    expected = onnxruntime.InferenceSession(decoder).run(None, given)[0].ravel()
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    actual = core.compile_model(core.read_model(decoder), "CPU", settings)(given)[0].ravel()

    assert np.abs(actual - expected).std() < 1e-3 * expected.std()


@pytest.mark.parametrize(
    "runtime", [ONNXRUNTIME, pytest.param(OPENVINO, marks=[pytest.mark.variant("model"), needs_openvino])]
)
def test_runs_at_once_give_what_they_give_alone(runtime: str) -> None:
    """To the bit, also while the front ends, the voices and the encoder are loaded by either of them."""
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    options = {"weights": weights, "threads": ENGINE_THREADS, "runtime": runtime, "concurrency": 2}
    shared = KokoroEngine(options)
    sentences = [("en", "Hold it."), ("es", "Hola, y adiós."), ("en", "Hold the note."), ("zh", "再见。")]
    runs = [RecordedRun(lang=lang, text=text, duration_factor=1.2) for lang, text in sentences]

    with ThreadPoolExecutor(shared.concurrency) as pool:
        together = [result.content for result in pool.map(shared.run, runs)]

    assert [spoken(runtime, **run.parameters).content for run in runs] == together


@needs_openvino
def test_openvino_repeats_itself_to_the_bit() -> None:
    """Another attempt at a job gives the same bytes (0047), whatever was spoken in between."""
    texts = [SENTENCES["en"], SENTENCES["en"] * 3, SENTENCES["en"]]
    first, _, second = (spoken(OPENVINO, lang="en", text=text).content for text in texts)
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    fresh = KokoroEngine({"weights": weights, "threads": ENGINE_THREADS, "runtime": AUTO})

    assert first == second == fresh.run(RecordedRun(lang="en", text=texts[0])).content
    assert OPENVINO == fresh.info["runtime"]


BOTH = pytest.mark.parametrize("runtime", [ONNXRUNTIME, pytest.param(OPENVINO, marks=needs_openvino)])


@BOTH
def test_the_model_is_optimised_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    """A load after that neither rewrites nor compiles it and gives the same samples; a damaged file is made
    again."""
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    weights[MODEL.name] = str(tmp_path / MODEL.name)
    (tmp_path / MODEL.name).symlink_to(MODEL)

    def sound() -> bytes:
        fresh = KokoroEngine({"weights": weights, "threads": ENGINE_THREADS, "runtime": runtime})
        assert runtime == fresh.info["runtime"]
        return fresh.run(RecordedRun(lang="en", text=SENTENCES["en"])).content

    first = sound()
    for file in (tmp_path / COMPILED).iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    damaged = sound()
    monkeypatch.setattr(operations, "fast", None)
    monkeypatch.setattr(products, "fast", None)

    assert first == damaged == sound()


@BOTH
def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, runtime: str) -> None:
    """The operator sees why each load optimises the model."""
    (tmp_path / MODEL.name).symlink_to(MODEL)
    (tmp_path / COMPILED).write_bytes(b"")
    loaded, reason = runtimes.loaded(tmp_path / MODEL.name, ENGINE_THREADS, runtime)

    assert runtime == loaded.name
    assert f"compiled at each load, for {tmp_path / COMPILED} cannot be written: File exists" == reason


def test_without_openvino_it_is_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left to the engine, it runs where OpenVINO is not installed; asked for by name, it refuses to load."""
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setattr(runtimes, "fault", lambda processors, cpuinfo: "")  # This machine may lack VNNI, too.
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    loaded = KokoroEngine({"weights": weights, "runtime": AUTO})

    assert str(loaded.info["runtime"]).startswith("onnxruntime: openvino cannot be imported")
    for runtime, code in ((OPENVINO, "runtime_unavailable"), ("torch", "runtime_unknown")):
        with pytest.raises(EngineError) as refused:
            KokoroEngine({"weights": weights, "runtime": runtime})
        assert code == refused.value.code


def test_a_processor_without_vnni_is_not_asked() -> None:
    """OpenVINO is no faster than ONNX Runtime without it (0069)."""
    reason = runtimes.lacking(cpuinfo="flags\t\t: fpu avx2 fma\n")

    assert "VNNI" in reason or "built for x86_64" in reason


@needs_openvino
def test_nothing_is_reported_to_anybody() -> None:
    """openvino comes with a package that sends how it is used; it is not loaded."""
    program = (
        "import sys; from tenuto_kokoro import runtimes; assert not runtimes.lacking();"
        "print(sys.modules['openvino_telemetry'])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "None" == result.stdout.strip()
