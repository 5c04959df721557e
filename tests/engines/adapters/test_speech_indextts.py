"""IndexTTS-2.5 through a real host, on stand-ins of both packages: every parameter, and every trap."""

import io
import os
import signal
import wave
from pathlib import Path
from typing import Any

import pytest

from engines.adapters.adapted import Adapt, Adapted, voice
from servers.rig import eventually
from tenuto.features.speech import parameters as speech
from tenuto.host.host import EngineFailed, HostNotReady
from tenuto.host.manifests import adapters
from tenuto_indextts.reading import readable

RATE = 22_050
TEXT = "One sentence. Another one, with more words in it."
PARAMETERS: dict[str, Any] = {
    **{field.name: field.default for field in speech.FIELDS},
    "text": TEXT,
    "lang": "en",
}
BOTH = pytest.mark.parametrize("name", ["indextts-2.5", "indextts-2.5-inference"])


def frames(content: bytes) -> bytes:
    with wave.open(io.BytesIO(content)) as file:
        assert (1, 2, RATE) == (file.getnchannels(), file.getsampwidth(), file.getframerate())
        found: bytes = file.readframes(file.getnframes())
    return found


def asked(model: Adapted) -> dict[str, Any]:
    return [*model.calls("infer" if _is_upstream(model) else "infer_generator")][-1]


def _is_upstream(model: Adapted) -> bool:
    return bool(model.calls("infer"))


@BOTH
def test_every_parameter_of_the_contract_reaches_the_package(
    adapt: Adapt, reference: Path, name: str
) -> None:
    """Under the package's own names, with the caller's values (R76–R91)."""
    model = adapt(name, reference=str(reference))
    chosen = {
        "lang": "es",
        "duration_factor": 1.5,
        "max_text_tokens_per_segment": 20,
        "text_normalization": False,
        "top_p": 0.5,
        "top_k": 7,
        "temperature": 1.1,
        "repetition_penalty": 3,
        "use_random": True,
        "emo_vector": [1, 0, 0, 0, 0, 0, 0, 1],
        "emo_alpha": 0.5,
    }
    model.run(PARAMETERS | chosen, {"voice": voice(300)})
    call = asked(model)

    assert "es" == call["lang"]
    assert [1.5, 20, False] == [
        call[key] for key in ("duration_factor", "max_text_tokens_per_segment", "text_normalization")
    ]
    assert [True, 0.5, 7, 1.1, 3.0] == [
        call[key] for key in ("do_sample", "top_p", "top_k", "temperature", "repetition_penalty")
    ]
    assert (True, 0.5) == (call["use_random"], call["emo_alpha"])
    assert pytest.approx([0.5, 0, 0, 0, 0, 0, 0, 0.3]) == call["emo_vector"]
    assert {"stream_return": True, "interval_silence": 0, "output_path": None}.items() <= call.items()


@BOTH
def test_streamed_or_not_the_same_segments_with_silence_between_them_alone(
    adapt: Adapt, reference: Path, name: str
) -> None:
    """Silence stands at the head of every segment but the first; joined, they are the file (R60)."""
    model = adapt(name, reference=str(reference))
    parameters = PARAMETERS | {
        "max_text_tokens_per_segment": 20,
        "interval_silence": 300,
        "do_sample": False,
        "stream": True,
    }
    whole = frames(model.run(parameters, {}).content)
    pieces = [frames(content) for content in model.shown]
    plain = frames(model.run(parameters | {"stream": False}, {}).content)
    silence = bytes(2 * (RATE * 300 // 1000))

    assert 3 == len(pieces) == len(model.shown)
    assert whole == b"".join(pieces) == plain
    assert [False, True, True] == [piece.startswith(silence) for piece in pieces]
    assert not any(piece.endswith(silence) for piece in pieces)


def test_two_recordings_are_two_voices(adapt: Adapt, reference: Path) -> None:
    """The package knows voices by their files' names; the same recording is not read twice."""
    model = adapt("indextts-2.5", reference=str(reference))
    parameters = PARAMETERS | {"do_sample": False}
    spoken = [
        model.run(parameters, inputs).content for inputs in ({"voice": voice(p)} for p in (300, 400, 300))
    ]
    paths = [call["spk_audio_prompt"] for call in model.calls("infer")]

    assert spoken[0] == spoken[2] != spoken[1]
    assert [False] * 3 == [call["keeps_graph"] for call in model.calls("voice")]
    assert paths[0] == paths[2] != paths[1]
    assert model.run(parameters, {}).content != spoken[0]
    assert str(reference) == model.calls("infer")[-1]["spk_audio_prompt"]


@BOTH
def test_nothing_drawn_is_the_same_every_time(adapt: Adapt, reference: Path, name: str) -> None:
    """`do_sample` false holds where the package draws whatever it is told: one candidate, one beam (R87)."""
    model = adapt(name, reference=str(reference))
    spoken = [model.run(PARAMETERS | {"do_sample": False}, {}).content for _ in range(3)]

    assert [False, 1, 1] == [asked(model)[key] for key in ("do_sample", "top_k", "num_beams")]
    assert spoken[0] == spoken[1] == spoken[2]


def test_a_callers_voice_is_gone_after_its_run(adapt: Adapt, reference: Path) -> None:
    """No recording stays on the disk; what a killed process left goes when the next one starts."""
    model = adapt("indextts-2.5", fresh=True, reference=str(reference))
    model.run(PARAMETERS, {"voice": voice(300), "emotion_voice": voice(400)})
    paths = [Path(asked(model)[name]) for name in ("spk_audio_prompt", "emo_audio_prompt")]
    left = paths[0].parent
    there = [path.exists() for path in [left, *paths]]
    pid = model.host.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not model.host.alive)
    stays = left.exists()
    model.host.load()

    assert [True, False, False] == there
    assert (True, False) == (stays, left.exists())


def test_emotions_come_from_recordings_vectors_and_texts(adapt: Adapt, reference: Path) -> None:
    """One of them at a time; upstream reads texts, where its model for that is loaded (R77–R83)."""
    model = adapt("indextts-2.5", reference=str(reference))
    model.run(PARAMETERS | {"emo_alpha": 0.7}, {"voice": voice(300), "emotion_voice": voice(500)})
    like = asked(model)
    model.run(PARAMETERS | {"use_emo_text": True, "emo_text": "so sad", "emo_alpha": 0.6}, {})
    told = asked(model)
    model.run(PARAMETERS | {"use_emo_text": True}, {})

    assert like["emo_audio_prompt"] not in (None, like["spk_audio_prompt"])
    assert (0.7, None, False) == (like["emo_alpha"], like["emo_vector"], like["use_emo_text"])
    assert (True, "so sad", 0.6) == (told["use_emo_text"], told["emo_text"], told["emo_alpha"])
    assert (True, None) == (asked(model)["use_emo_text"], asked(model)["emo_text"])


@pytest.mark.parametrize(
    ("name", "options"), [("indextts-2.5", {"use_qwen_emo": False}), ("indextts-2.5-inference", {})]
)
def test_a_package_that_reads_no_emotion_says_so(
    adapt: Adapt, reference: Path, name: str, options: dict[str, Any]
) -> None:
    model = adapt(name, reference=str(reference), **options)
    warnings = model.run(PARAMETERS | {"use_emo_text": True}, {}).metadata["warnings"]

    assert ["The model does not read emotions from text: it speaks as the voice does."] == warnings
    assert not asked(model).get("use_emo_text")
    assert "use_emo_text" not in adapters()["indextts-2.5-inference"].honoured


def test_the_first_releases_get_texts_in_pieces(adapt: Adapt, reference: Path) -> None:
    """They speak any text in one segment, whatever limit they are told, and break off what is too long."""
    model = adapt("indextts-2.5", fresh=True, reference=str(reference))
    (model.folder / "first_release").touch()
    model.run(PARAMETERS | {"max_text_tokens_per_segment": 30}, {})
    texts = [call["text"] for call in model.calls("infer")]

    assert TEXT == "".join(texts)
    assert ["One sentence. ", "Another one, ", "with more words in it."] == texts


def test_what_the_package_leaves_out_is_told(adapt: Adapt, reference: Path) -> None:
    """Of a recording over 15 s; of a segment that it breaks off, which it says on nobody's screen."""
    model = adapt("indextts-2.5", reference=str(reference))
    long = PARAMETERS | {"text": "word " * 60, "max_text_tokens_per_segment": 200}
    told = [
        model.run(parameters, {"voice": voice(300, seconds)}).metadata["warnings"]
        for parameters, seconds in ((PARAMETERS, 15), (PARAMETERS, 15.5), (long, 15))
    ]

    assert [
        [],
        ["The recording lasts 15.5 s; the model hears its first 15 s."],
        ["A segment was broken off before its end: ask for a smaller max_text_tokens_per_segment."],
    ] == told


def test_samples_that_are_no_numbers_are_no_sound(adapt: Adapt, reference: Path) -> None:
    """NaN would become a crackle as 16-bit sound; the run fails, the host stays."""
    model = adapt("indextts-2.5", ["nan", ""], reference=str(reference))
    with pytest.raises(EngineFailed, match="no numbers"):
        model.run(PARAMETERS, {})

    assert model.run(PARAMETERS, {}).duration_ms


def test_the_hubs_cache_stays_the_operators(adapt: Adapt, reference: Path) -> None:
    """Importing the package points it at the current folder, for whatever is loaded after it."""
    model = adapt("indextts-2.5", fresh=True, reference=str(reference))
    info = model.host.load()
    (loaded,) = model.calls("load")

    assert "indextts" == info["package"]
    assert (None, "the user's own") == (loaded["variable"], loaded["read"])


@pytest.mark.parametrize("lacking", ["reference", "model"])
def test_what_is_not_there_is_named(adapt: Adapt, tmp_path: Path, lacking: str) -> None:
    """A folder without a model, a reference that is no recording: the engine is not ready, and says why."""
    reference = tmp_path / "reference.wav"
    reference.write_bytes(b"no WAV" if lacking == "reference" else voice(300))
    model = adapt("indextts-2.5", fresh=True, reference=str(reference))
    if lacking == "model":
        (model.folder / "config.yaml").unlink()
    with pytest.raises(HostNotReady, match="options.reference" if lacking == "reference" else "config.yaml"):
        model.host.load()


@pytest.mark.parametrize(
    ("text", "lang", "read"),
    [
        ("银<行|hang2>在<行|XING2>走", "zh", "银<行|HANG2>在<行|XING2>走"),
        ("<居|ju1><绿|lü4><女|nv3><月|yuè4>", "zh", "<居|JV1><绿|LV4><女|NV3> 月 yuè4 "),
        ("<去|qu4><学|xue2><穷|qiong2>", "zh", "<去|QV4><学|XVE2><穷|QIONG2>"),
        ("<行|XING6> <going|G OW1> <|zh|>好", "zh", " 行 XING6   going G OW1    zh  好"),
        ("<行|XING2> <|en|> <a|b>", "en", " 行 XING2    en    a b "),
    ],
)
def test_only_the_contracts_markup_reaches_the_model(text: str, lang: str, read: str) -> None:
    """A syllable of the table, upper-cased, ü as V; special tokens and other sounds are plain text (R97)."""
    assert read == readable(text, lang)
