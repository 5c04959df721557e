"""What the second recognition engine is made of: graphs, windows, languages, guards. Needs no weights."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tenuto.engines.languages import understood
from tenuto.engines.recognition_whisper_onnx import guards
from tenuto.engines.recognition_whisper_onnx.chinese import simplified
from tenuto.engines.recognition_whisper_onnx.model_file import ModelFile
from tenuto.engines.recognition_whisper_onnx.onnx_writer import Graph
from tenuto.engines.recognition_whisper_onnx.search import Found
from tenuto.engines.recognition_whisper_onnx.windows import Span, halves, left_over, voices, windows

KNOWN = {"zh", "en", "ja", "es", "ar", "fr", "he", "jw"}
RATE = 16_000


@pytest.mark.parametrize(
    ("said", "code"),
    [
        *(
            (name, "zh")
            for name in ("zh", "ZH", " zh ", "zh-CN", "zh_Hant_TW", "Chinese", "chi", "cmn-Hans", "中文")
        ),
        *((name, "en") for name in ("en", "en-GB", "English", "eng", "ｅｎ")),
        *((name, "ja") for name in ("ja", "ja-JP", "jp", "Japanese", "日本語")),
        *((name, "es") for name in ("es", "es-419", "Spanish", "Español", "castellano")),
        *((name, "ar") for name in ("ar", "ar-EG", "Arabic", "العربية")),
        *((("fr", "fr"), ("French", "fr"), ("iw", "he"), ("jv", "jw"))),
        *((name, None) for name in (None, "", "-", "xx", "Klingon", "e", "zhongwenhua", "auto")),
    ],
)
def test_languages_have_many_names(said: str | None, code: str | None) -> None:
    """Codes of two and three letters, tags with a region, names; anything else is not known."""
    assert code == understood(said, KNOWN)


def test_traditional_characters_become_simplified() -> None:
    """Characters that are the same in both, and other scripts, stay."""
    assert "图书馆开门 café 123" == simplified("圖書館開門 café 123")


@pytest.mark.parametrize(
    ("text", "circles"),
    [
        ("Thank you. Thank you. Thank you. Thank you. Thank you. Thank you.", True),
        ("我们去吧我们去吧我们去吧我们去吧我们去吧", True),
        ("No, no, no, he said, and went away.", False),
        ("哈哈哈哈哈哈", False),
        ("It was the best of times, it was the worst of times.", False),
    ],
)
def test_words_that_go_round_in_circles_are_seen(text: str, circles: bool) -> None:
    """Five times the same; laughter and a repeated word are speech."""
    assert circles == guards.collapsed(text)


def test_what_goes_round_in_circles_is_said_once() -> None:
    """The words around it stay."""
    assert "So: I see. Good." == guards.unfolded("So:" + " I see." * 7 + " Good.")


def test_only_unsure_words_in_silence_are_made_up() -> None:
    """Each alone is not enough."""
    pairs = [(-1.5, 0.9), (-1.5, 0.1), (-0.3, 0.9)]

    assert [True, False, False] == [guards.made_up(Found((), *pair)) for pair in pairs]


def test_voices_are_where_speech_or_singing_is_likely() -> None:
    """A breath parts nothing, a click is no voice."""
    probabilities = np.zeros((1000, 3), np.float32)
    probabilities[100:200, 0] = probabilities[220:300, 1] = probabilities[500:505, 0] = 0.9
    probabilities[600:900, 2] = 0.9

    assert [Span(1.0, 3.0)] == voices(probabilities)


def test_windows_hold_all_voices_and_no_long_pause() -> None:
    """Packed up to 29 s; a pause of more than 4 s parts windows; none overlaps another."""
    samples = np.zeros(100 * RATE, np.float32)
    found = windows([Span(1, 10), Span(11, 20), Span(21, 31), Span(60, 65)], samples, RATE)

    assert [Span(0.75, 20.25), Span(20.75, 31.25), Span(59.75, 65.25)] == found


def test_a_voice_without_a_pause_is_cut_where_it_is_quiet() -> None:
    """At the quietest moment between 18 and 28 seconds, and nothing is lost between."""
    samples = np.full(60 * RATE, 0.5, np.float32)
    samples[22 * RATE : round(22.3 * RATE)] = 0.01
    first, second, *_ = windows([Span(0, 60)], samples, RATE)

    assert 22 < first.end < 22.3
    assert first.end == second.start


def test_a_window_is_halved_where_it_is_quiet() -> None:
    """In its middle third."""
    samples = np.full(30 * RATE, 0.5, np.float32)
    samples[12 * RATE : 13 * RATE] = 0
    first, second = halves(Span(0, 30), samples, RATE)

    assert 12 < first.end < 13
    assert (0, first.end, 30) == (first.start, second.start, second.end)


def test_what_comes_after_the_last_words_is_left_over() -> None:
    """Where there are voices: a pause, or the end of a sound, is nothing to hear again."""
    found = [Span(0, 20), Span(25, 29)]

    assert [Span(24, 29), Span(28, 29), None] == [left_over(Span(0, 29), at, found) for at in (24, 28, 28.6)]
    assert left_over(Span(0, 29), 20, found[:1]) is None


def test_a_written_graph_is_run_by_the_runtime() -> None:
    """Weights from memory, small constants, attributes of every kind, several results of an operator."""
    graph = Graph()
    product = graph.add(
        "MatMul", graph.input("given", "float32", ["rows", 4]), graph.weight(np.eye(4, dtype="f4") * 3)
    )
    left, right = graph.add_many("Split", 2, product, axis=-1, num_outputs=2)
    turned = graph.add("Transpose", graph.add("Sub", left, right), perm=[1, 0])
    graph.output(graph.add("LeakyRelu", turned, alpha=0.5), "made", "float32", [2, "rows"])
    options = onnxruntime.SessionOptions()
    names = list(graph.weights)
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(graph.weights[name]) for name in names]
    options.add_external_initializers(names, values)
    session = onnxruntime.InferenceSession(graph.content(), options, providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {"given": np.array([[5, 1, 1, 2]], np.float32)})

    assert [[12.0], [-1.5]] == made.tolist()


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """The head says what it is."""
    file = tmp_path / "model.bin"
    file.write_bytes(b"\6\0\0\0\x06\0Other\0" + bytes(64))

    with pytest.raises(ValueError, match="Other"):
        ModelFile(file)
