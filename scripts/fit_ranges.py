"""Measures which numbers the speech model's convolutions take, and writes the ranges that 8 bits cover.

    python -m scripts.fit_ranges

The model is run in floating point, by its own weights, on texts in five languages, in many voices, fast and
slow and with every emotion: none of these texts is one that quality is measured with. Writes ranges.json
beside the engine: on one processor the same speech gives the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from tenuto.weights.cache import default_cache
from tenuto_kokoro import emotion, graph, operations
from tenuto_kokoro.languages import Languages
from tenuto_kokoro.runtimes import DECODED, Feed
from tenuto_kokoro.styles import Style, read_style

FILE = Path(operations.__file__).with_name("ranges.json")
TEXTS = {
    "zh": ("我们明天上午去火车站接客人。", "这种苹果多少钱一斤？太贵了吧！", "月亮慢慢升起来了。"),
    "en": ("Who left the garden gate open?", "Seventeen ships sailed past the lighthouse.", "What a pity!"),
    "ja": ("山の上は空気がきれいですね。", "切符を二枚ください。", "どうして泣いているの？"),
    "es": ("¿Dónde está la calle mayor?", "El jueves viajamos a la costa.", "¡Qué sorpresa tan agradable!"),
    "ar": ("أين تقع المكتبة؟", "شربت القهوة في الصباح.", "الطقس جميل اليوم."),
}
VOICES = {
    "zh": ("zf_xiaoxiao", "zm_yunjian", "zf_xiaoni", "zm_yunxia"),
    "en": ("af_heart", "am_michael", "bf_emma", "bm_george", "af_nicole", "am_onyx"),
    "ja": ("jf_alpha", "jm_kumo", "jf_nezumi"),
    "es": ("ef_dora", "em_alex", "em_santa"),
    "ar": ("em_alex", "hf_alpha", "if_sara"),
}
SPEEDS = (1.0, 0.8, 1.25)
OUTSIDE = 1e-5
"""The share of an utterance's numbers, at either end, that may lie outside the range."""
EVERY = 7
"""One number in this many is looked at."""
DIGITS = 5


def styles() -> Iterator[tuple[str, str, Style, float]]:
    """Language, text, style and speed of each utterance."""
    folder = default_cache() / "kokoro-voices"
    for lang, voices in VOICES.items():
        for number, voice in enumerate(voices):
            yield lang, TEXTS[lang][number % 3], read_style(folder, voice), SPEEDS[number % 3]
        for number, name in enumerate(emotion.EMOTIONS):
            strengths = [float(name == other) for other in emotion.EMOTIONS]
            felt = emotion.wished({"emo_vector": strengths}, {}, "")
            assert felt is not None
            style = emotion.moved(read_style(folder, voices[number % len(voices)]), felt)
            yield lang, TEXTS[lang][number % 3], style, 1 / felt.factor


def utterances() -> Iterator[Feed]:
    """What the model is given."""
    cache = default_cache()
    languages = Languages(cache / "text2tashkeel")
    vocabulary = json.loads((cache / "kokoro-vocabulary").read_text("utf-8"))["vocab"]
    for lang, text, style, speed in styles():
        phonemes = "".join(unit.phonemes for unit in languages.read(text, lang, True))
        tokens = [vocabulary[symbol] for symbol in phonemes if symbol in vocabulary]
        yield {
            "tokens": np.array([[0, *tokens, 0]], np.int64),
            "style": style[len(tokens) - 1],
            "speed": np.array([speed], np.float32),
        }


def measured() -> dict[str, tuple[float, float]]:
    """The lowest and the highest number of each convolution's input."""
    model = default_cache() / "kokoro-v1.0-int8.onnx"
    names: list[str] = []

    def floating(nodes: Sequence[graph.Node], constant: graph.Constants) -> graph.Rewritten:
        names[:] = operations.inputs_of_convolutions(nodes)
        return operations.fast(nodes, constant, {})

    graph.part(model, rewrite=floating)
    names = [name for name in names if name in DECODED or "/decoder/" in name]
    session = onnxruntime.InferenceSession(
        graph.part(model, names, rewrite=floating), providers=["CPUExecutionProvider"]
    )
    found = dict.fromkeys(names, (0.0, 0.0))
    for feed in utterances():
        for name, values in zip(names, session.run(names, feed), strict=True):
            low, high = _ends(values.ravel()[::EVERY])
            found[name] = min(found[name][0], low), max(found[name][1], high)
    return found


def _ends(values: npt.NDArray[np.float32]) -> tuple[float, float]:
    low, high = np.quantile(values, (OUTSIDE, 1 - OUTSIDE))
    return float(low), float(high)


def main() -> None:
    """Write the file."""
    lines = [
        f'"{name}": [{low:.{DIGITS}g}, {high:.{DIGITS}g}]' for name, (low, high) in sorted(measured().items())
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
