"""Fits how a style moves the melody and the loudness of speech; run it as a module.

    python -m scripts.voice_mixtures FOLDER --count 160
    python -m scripts.fit_emotions FOLDER            writes the engine's emotion_directions.json
    python -m scripts.fit_emotions FOLDER --check    fits again and says whether the numbers are the same

Pitch and its spread: the first part of the model tells the melody and the durations without making a sound,
in a thirtieth of the time. Around eight presets each of the 30 directions in which the prosody halves of the
54 presets differ most is tried both ways; the mean of the changes is the slope. Loudness: the model hears
nothing of it in the prosody half, so the slope is a ridge regression of the loudness of mixtures of the
presets on their timbre halves, tried on four presets afterwards. The direction for one measure is the
smallest change (in standard deviations of the presets, so it stays where voices are) that moves this measure
alone. Nothing is drawn. Needs the weights (`tenuto models pull`).
"""

import json
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tenuto.features.models.cache import default_cache, location
from tenuto_kokoro import graph, prosody
from tenuto_kokoro.audio import SAMPLE_RATE
from tenuto_kokoro.cutting import PUNCTUATION
from tenuto_kokoro.languages import Languages
from tenuto_kokoro.styles import PROSODY, STYLE_SHAPE, TIMBRE
from tenuto_kokoro.synthesis import Synthesis

Numbers = npt.NDArray[np.float64]

TABLE = Path(__file__).parents[1] / "engines/kokoro/src/tenuto_kokoro/emotion_directions.json"
DURATIONS, PITCH = "/encoder/predictor/ReduceSum_output_0", "/encoder/F0_proj/Conv_output_0"
VOICED_HZ = 50
DIRECTIONS = 30
NAMES = ("pitch", "spread", "loudness")
ROWS = slice(20, 150)
"""Of a style: those of usual segments."""
MELODY = ("pitch", "spread")
"""Semitones; the logarithm to base 2 of the pitch's standard deviation."""
TRIED = (2.0, 0.4)
"""How far each is moved to see what a direction really does: the slope alone overshoots or falls short."""
SCALES = (1.0, 0.2, 0.05)
"""Changes of pitch, spread and durations (log2) that weigh alike."""
RIDGE = 0.05
MIXTURES, TEXTS = 160, 8
LOUDER_DB, HEARD_VOICES = 3.0, (0, 1, 3, 6)
"""How far the loudness is moved to hear what its direction does, and in which of VOICES."""
MIXTURE_DIRECTIONS, MIXTURE_RIDGE = 20, 10.0

VOICES = (
    ("af_heart", "en"), ("am_michael", "en"), ("bm_george", "en"), ("zf_xiaoxiao", "zh"), ("zm_yunxi", "zh"),
    ("jf_alpha", "ja"), ("ef_dora", "es"), ("em_alex", "ar"),
)  # fmt: skip
SENTENCES = {
    "zh": ("我明天要去学校上课。", "桌子上放着一本书和两个杯子。"),
    "en": ("The meeting starts in the small room upstairs.", "We will take the train to the city tomorrow."),
    "ja": ("机の上に本とめがねがあります。", "明日の朝、駅で友達に会います。"),
    "es": ("La reunión empieza en la sala pequeña.", "Mañana tomaremos el tren a la ciudad."),
    "ar": ("وضعت الكتاب على الطاولة.", "سنذهب إلى المدينة غدا."),
}


class Predictor:
    """The part of the model that decides on melody, loudness and durations."""

    def __init__(self) -> None:
        cache = default_cache()
        import onnxruntime  # After `tenuto_engine`, so that it reports nothing.

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        model = graph.part(location(cache, "kokoro-v1.0-int8.onnx"), [DURATIONS, PITCH])
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        vocabulary = location(cache, "kokoro-vocabulary").read_text("utf-8")
        self._vocabulary: dict[str, int] = json.loads(vocabulary)["vocab"]

    def measured(self, phonemes: str, style: Numbers) -> Numbers:
        """Pitch, spread and durations (log2) of a sentence in a style [510, 256]."""
        symbols = [symbol for symbol in phonemes if symbol in self._vocabulary]
        tokens = [0, *(self._vocabulary[symbol] for symbol in symbols), 0]
        feed = {
            "tokens": np.array([tokens], np.int64),
            "style": style[len(symbols) - 1][None].astype(np.float32),
            "speed": np.ones(1, np.float32),
        }
        durations, pitch = (value.ravel() for value in self._session.run(None, feed))
        voiced = pitch > VOICED_HZ
        semitones = 12 * np.log2(pitch[voiced] / 100)
        sounding = [symbol not in PUNCTUATION for symbol in symbols]
        lasting = np.log2(durations[1:-1][sounding].mean())
        return np.array([semitones.mean(), np.log2(semitones.std()), lasting])


class Trials:
    """Every sentence of the fit in every voice of its language, and how a change of style changes it."""

    def __init__(self) -> None:
        cache = default_cache()
        folder = location(cache, "kokoro-voices")
        self.presets = np.stack([_preset(path) for path in sorted(folder.glob("*.bin"))])
        self._predictor = Predictor()
        languages = Languages(location(cache, "text2tashkeel"))
        self.trials = [
            (_phonemes(languages, text, lang), _preset(folder / f"{voice}.bin"))
            for voice, lang in VOICES
            for text in SENTENCES[lang]
        ]
        self._neutral = [self._predictor.measured(*trial) for trial in self.trials]

    def changes(self, step: Numbers) -> Numbers:
        """The mean change of the three measures under a step [128] of the prosody half."""
        whole = np.zeros(STYLE_SHAPE[2])
        whole[PROSODY] = step
        found = [self._predictor.measured(phonemes, style + whole) for phonemes, style in self.trials]
        return np.mean(np.array(found) - np.array(self._neutral), axis=0)


def main() -> int:
    """Fit, then write or compare."""
    trials = Trials()
    louder = _heard(trials, loudness(trials.presets, Path(sys.argv[1])))
    rows = [*melody(trials), louder]
    lines = [f'"{name}": {[round(float(x), 5) for x in row]}' for name, row in zip(NAMES, rows, strict=True)]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if sys.argv[2:] == ["--check"]:
        is_same = TABLE.read_text("utf-8") == text
        print("the same" if is_same else "different")
        return 0 if is_same else 1
    TABLE.write_text(text, "utf-8")
    return 0


def melody(trials: Trials) -> list[Numbers]:
    """The steps [128] of the prosody half that raise pitch and spread by one, each alone."""
    steps = _steps(trials.presets[:, ROWS, PROSODY].mean(axis=1), DIRECTIONS)
    slopes = np.array([(trials.changes(step) - trials.changes(-step)) / 2 for step in steps]).T
    weighed = slopes / np.array(SCALES)[:, None]
    solved = weighed.T @ np.linalg.inv(weighed @ weighed.T + RIDGE * np.eye(len(SCALES)))
    return [_true(trials, solved[:, k] / SCALES[k] @ steps, k) for k in range(len(MELODY))]


def _true(trials: Trials, direction: Numbers, measure: int) -> Numbers:
    """The direction, longer or shorter, so that it does what it says where it is used."""
    far = TRIED[measure]
    done = (trials.changes(far * direction) - trials.changes(-far * direction))[measure] / 2
    print(f"{MELODY[measure]}: asked {far}, done {done:.2f}, corrected")
    return direction * far / done


def loudness(presets: Numbers, folder: Path) -> Numbers:
    """The step [128] of the timbre half that makes speech louder by a decibel, its pitch as before."""
    timbre, prosody_ = (presets[:, ROWS, half].mean(axis=1) for half in (TIMBRE, PROSODY))
    steps = _steps(timbre, MIXTURE_DIRECTIONS), _steps(prosody_, MIXTURE_DIRECTIONS)
    rows, heard = [], []
    for number in range(MIXTURES):
        mixture = np.load(folder / f"{number:04}.npz")
        found = prosody.measured(mixture["audio"].astype(np.float64), SAMPLE_RATE)
        assert found is not None, number
        inner = mixture["weights_timbre"] @ timbre, mixture["weights_prosody"] @ prosody_
        parts = [
            np.linalg.lstsq(step.T, half, rcond=None)[0] for step, half in zip(steps, inner, strict=True)
        ]
        rows.append([*parts[0], *parts[1], *np.eye(TEXTS)[int(mixture["text"])]])
        heard.append([found.loudness, found.pitch])
    inputs, outputs = np.array(rows), np.array(heard)
    ridge = np.diag([MIXTURE_RIDGE] * 2 * MIXTURE_DIRECTIONS + [0.001] * TEXTS)
    slopes = np.linalg.solve(inputs.T @ inputs + ridge, inputs.T @ outputs)
    left = outputs - inputs @ slopes
    print(f"loudness: {1 - left[:, 0].var() / outputs[:, 0].var():.2f} of the variance explained")
    solved = np.linalg.pinv(slopes[:MIXTURE_DIRECTIONS].T)[:, 0]
    return np.asarray(solved @ steps[0])


def _heard(trials: Trials, direction: Numbers) -> Numbers:
    """The direction, longer or shorter, so that speech gets as much louder as is asked."""
    cache = default_cache()
    model, vocabulary = location(cache, "kokoro-v1.0-int8.onnx"), location(cache, "kokoro-vocabulary")
    synthesis = Synthesis(model, vocabulary, threads=1)
    step = np.zeros(STYLE_SHAPE[2])
    step[TIMBRE] = LOUDER_DB * direction
    done = []
    for phonemes, style in (trials.trials[2 * voice] for voice in HEARD_VOICES):
        known = synthesis.known(phonemes)
        found = [
            prosody.measured(
                synthesis.speak(known, (style + way * step)[:, None].astype(np.float32), 1.0).astype(
                    np.float64
                ),
                SAMPLE_RATE,
            )
            for way in (-1, 1)
        ]
        assert found[0] is not None
        assert found[1] is not None
        done.append((found[1].loudness - found[0].loudness) / 2)
    print(f"loudness: asked {LOUDER_DB}, done {np.mean(done):.2f}, corrected")
    return direction * LOUDER_DB / np.mean(done)


def _steps(halves: Numbers, count: int) -> Numbers:
    """The directions in which these differ most, each as long as a standard deviation."""
    _, spreads, axes = np.linalg.svd(halves - halves.mean(axis=0), full_matrices=False)
    steps: Numbers = (spreads / np.sqrt(len(halves)))[:count, None] * axes[:count]
    return steps


def _preset(path: Path) -> Numbers:
    return np.fromfile(path, "<f4").reshape(STYLE_SHAPE)[:, 0].astype(np.float64)


def _phonemes(languages: Languages, text: str, lang: str) -> str:
    return "".join(unit.phonemes for unit in languages.read(text, lang, True)).strip()


if __name__ == "__main__":
    sys.exit(main())
