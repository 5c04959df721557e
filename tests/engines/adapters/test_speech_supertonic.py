"""The adapter of Supertonic on tiny graphs that have the inputs and outputs of the real ones."""

from pathlib import Path

from engines.adapters.tiny_supertonic import RATE, SECONDS_A_CHARACTER, write
from engines.conformance.subjects import PATIENT, faults
from tenuto_engine.conformance import Trial, examine, subjects
from tenuto_engine.wav import read_pcm16_wav

ARABIC = "الطقس جميل اليوم."


def trial(folder: Path, **options: object) -> Trial:
    chosen = {"path": str(write(folder)), "threads": 1, **options}
    return Trial(subjects("tenuto_supertonic", options=chosen, **PATIENT)["supertonic"])


def test_it_conforms(tmp_path: Path) -> None:
    with trial(tmp_path / "model") as one:
        assert {} == faults(examine(one.subject))


def test_arabic_is_spoken_at_its_length_and_the_same_again(tmp_path: Path) -> None:
    """The predicted duration at the model's pace; a repeated attempt gives the same samples. Characters that
    the model does not know are named."""
    with trial(tmp_path / "model") as one:
        first = one.result({"text": ARABIC, "lang": "ar"})
        again = one.result({"text": ARABIC, "lang": "ar"})
        slower = one.result({"text": ARABIC, "lang": "ar", "duration_factor": 2.0})
        warned = one.result({"text": "Well 好 done.", "lang": "en"})
    samples, rate, _ = read_pcm16_wav(first.content)
    expected_s = SECONDS_A_CHARACTER * len(f"<ar>{ARABIC}</ar>") / 1.05

    assert (RATE, first.content) == (rate, again.content)
    assert abs(len(samples) / 2 / rate - expected_s) < 0.01
    assert abs(len(slower.content) - 44 - 2 * len(samples)) <= 4
    assert ["Not spoken, because the model does not know them: 好"] == warned.header["metadata"]["warnings"]
