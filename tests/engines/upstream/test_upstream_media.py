"""What goes to an OpenAI-compatible server for each kind, and what is made of its answer."""

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from PIL import Image

from engines.upstream.calling import NAME, Asked, engine, image, speech
from servers.media_upstream import RATE, SECONDS_A_CHARACTER, MediaUpstream
from tenuto.features.decoding.wav import pcm16_wav, read_pcm16_wav
from tenuto.features.image.png import read_png
from tenuto_engine import EngineError, Result
from tenuto_remote.cutting import split

REFERENCE = pcm16_wav(bytes(2 * 16_000 * 3), 16_000, 1)
PART = np.tile(np.array([1000, -1000], "<i2"), 80_000).tobytes()


@pytest.fixture
def upstream() -> Iterator[MediaUpstream]:
    server = MediaUpstream()
    yield server
    server.close()


@pytest.fixture
def omni(tmp_path: Path) -> Iterator[MediaUpstream]:
    (tmp_path / "reference.wav").write_bytes(REFERENCE)
    server = MediaUpstream(omni=True)
    yield server
    server.close()


def test_a_text_is_spoken_in_pieces_that_joined_are_the_whole(upstream: MediaUpstream) -> None:
    """Each piece is a segment, the pause at the head of every one but the first; slower is a lower speed."""
    text = "一句话<行|XING2>。第二句话！第三句。"
    run = Asked(speech(text, lang="zh", stream=True, interval_silence=100, duration_factor=2))
    table = 'options = { max_input_characters = 6, voices = { zh = "vivian" } }'
    result = engine("openai-speech", upstream.url, table).run(run)
    bodies = [asked.body for asked in upstream.asked]
    whole = read_pcm16_wav(result.content)

    assert ["一句话行。", "第二句话！", "第三句。"] == [body["input"] for body in bodies]
    assert {("there/model", "vivian", 0.5)} == {(b["model"], b["voice"], b["speed"]) for b in bodies}
    assert bytes(whole.frames) == b"".join(bytes(read_pcm16_wav(shown).frames) for shown in run.segments)
    assert round(14 * SECONDS_A_CHARACTER * 2 * 1000) + 200 == whole.duration_ms == result.duration_ms
    assert (NAME, 3, RATE) == tuple(result.metadata[name] for name in ("model_id", "segments", "sample_rate"))
    assert [("speaking", 3, 3, "segments")] == run.steps[-1:]


@pytest.mark.parametrize("fault", ["", "mp3"])
def test_sound_in_any_format_becomes_pcm16(upstream: MediaUpstream, fault: str) -> None:
    """A WAV whose header was written before its length was known, and MP3 (whose frames are padded)."""
    upstream.faults.append(fault)
    result = engine("openai-speech", upstream.url).run(Asked(speech("Hold the note.")))
    wav = read_pcm16_wav(result.content)

    assert (RATE, 1) == (wav.sample_rate, wav.channels)
    assert abs(wav.duration_ms - 14 * SECONDS_A_CHARACTER * 1000) < 100
    assert 0.45 < np.abs(np.frombuffer(wav.frames, "<i2")).max() / 32768 < 0.55


def test_pieces_of_different_rates_are_no_sound(upstream: MediaUpstream) -> None:
    upstream.faults += ["", "other_rate"]
    with pytest.raises(EngineError, match="22050 samples a second, after 24000"):
        engine("openai-speech", upstream.url, "options.max_input_characters = 6").run(
            Asked(speech("One. Two. Three."))
        )


def test_every_voice_of_the_contract_speaks_where_a_server_can_imitate(
    omni: MediaUpstream, tmp_path: Path
) -> None:
    """The job's recording goes along, without one the operator's; the language by the server's own name."""
    own = pcm16_wav(b"\1\0" * 16_000, 16_000, 1)
    server = engine("vllm-omni-speech", omni.url, f'options.reference = "{tmp_path}/reference.wav"')
    server.run(Asked(speech(lang="ja"), {"voice": own}))
    server.run(Asked(speech(lang="ar")))
    sent = [asked.body for asked in omni.asked]

    assert ["Japanese", "Auto"] == [body["language"] for body in sent]
    assert [own, REFERENCE] == [_bytes(body["ref_audio"]) for body in sent]
    assert {(True, "Base")} == {(body["x_vector_only_mode"], body["task_type"]) for body in sent}
    assert all("voice" not in body for body in sent)


def test_pieces_are_whole_sentences_where_they_can_be() -> None:
    """Else clauses, words, or anything; joined they are the text, and none holds nothing to speak."""
    text = "One sentence. Another, rather longer one; with clauses! …  Unbreakablewordwithoutanyspace."
    pieces = split(text, 20)

    assert text == "".join(pieces)
    assert all(len(piece) <= 20 for piece in pieces)
    assert "One sentence. " == pieces[0]
    assert all(any(sign.isalnum() for sign in piece) for piece in pieces)


def test_an_image_is_asked_for_with_what_the_server_knows(
    omni: MediaUpstream, upstream: MediaUpstream
) -> None:
    """vLLM-Omni takes steps, guidance and the exact seed, OpenAI's own a prompt and a size alone."""
    for server, adapter in ((omni, "vllm-omni-image"), (upstream, "openai-image")):
        result = engine(adapter, server.url).run(Asked(image()))

        assert (1024, 1024) == (read_png(result.content).width, read_png(result.content).height)
    asked = {"model": NAME, "prompt": "a crane", "n": 1, "size": "1024x1024"}

    diffusion = {"num_inference_steps": 9, "guidance_scale": 0, "seed": 2**62, "response_format": "b64_json"}
    assert [asked | diffusion] == [request.body for request in omni.asked]
    assert [asked] == [request.body for request in upstream.asked]


@pytest.mark.parametrize(
    ("size", "sent"), [((1040, 720), "1536x1024"), ((512, 512), "1024x1024"), ((256, 2048), "1024x1536")]
)
def test_a_size_that_a_server_does_not_know_is_cut_from_the_nearest(
    upstream: MediaUpstream, size: tuple[int, int], sent: str
) -> None:
    result = engine("openai-image", upstream.url).run(Asked(image(width=size[0], height=size[1])))
    picture = Image.open(io.BytesIO(result.content))
    row = np.asarray(picture)[size[1] // 2, :, 0].astype(int)

    assert (sent, size) == (upstream.asked[0].body["size"], picture.size)
    # The ramp from black to white runs through the whole picture: its middle is grey, its sides alike cut.
    assert 110 < row[size[0] // 2] < 145
    assert abs((255 - row[-1]) - row[0]) <= 3
    assert (size == (256, 2048)) == bool(result.metadata["warnings"])


@pytest.mark.parametrize("fault", ["jpeg", "small"])
def test_a_picture_of_another_form_or_size_becomes_the_one_asked_for(omni: MediaUpstream, fault: str) -> None:
    omni.faults.append(fault)
    result = engine("vllm-omni-image", omni.url).run(Asked(image(width=512, height=264)))
    png = read_png(result.content)

    assert (512, 264, "image/png") == (png.width, png.height, result.media_type)
    assert (fault == "small") == bool(result.metadata["warnings"])


@pytest.mark.parametrize("fault", ["url", "half", "html", 'json={"data": []}', "json=[NaN]", "giant"])
def test_an_answer_without_a_picture_is_refused(upstream: MediaUpstream, fault: str) -> None:
    """Also an address to fetch one from, which is never followed (P17)."""
    upstream.faults.append(fault)
    with pytest.raises(EngineError) as caught:
        engine("openai-image", upstream.url).run(Asked(image()))

    assert ("engine_failed", False, 1) == (caught.value.code, caught.value.transient, len(upstream.asked))


def test_a_part_becomes_a_transcript(upstream: MediaUpstream) -> None:
    value = _transcript(_recognised(upstream, "zh-CN"))
    sent = upstream.asked[0].body
    samples, rate = soundfile.read(io.BytesIO(sent["file"]), dtype="int16")

    assert ("zh", "verbose_json", NAME) == (sent["language"], sent["response_format"], sent["model"])
    assert (16_000, PART) == (rate, samples.tobytes())
    assert [(0.0, 5.0, "word 0"), (5.0, 10.0, "word 1")] == [
        (segment["start"], segment["end"], segment["text"]) for segment in value["segments"]
    ]
    assert [] == value["warnings"]


def test_what_a_server_cannot_do_is_told(upstream: MediaUpstream) -> None:
    upstream.faults.append("no_times")
    value = _transcript(_recognised(upstream, "klingon"))

    assert "language" not in upstream.asked[0].body
    assert [(0.0, 10.0, "word 0 word 1")] == [
        (segment["start"], segment["end"], segment["text"]) for segment in value["segments"]
    ]
    assert 2 == len(value["warnings"])


@pytest.mark.parametrize(
    "segments", [[], [{"text": "word 0"}], [{"text": "word 0", "start": 900, "end": 901}]]
)
def test_words_are_kept_if_no_segment_can_be_used(upstream: MediaUpstream, segments: list[Any]) -> None:
    """They were paid for; an empty list, or times that cannot be, are no reason to lose them."""
    answer = {"text": "word 0 word 1", "language": "english", "segments": segments}
    upstream.faults.append(f"json={json.dumps(answer)}")
    value = _transcript(_recognised(upstream, "en", 'role = "segment_text"'))

    assert [(0.0, 10.0, "word 0 word 1")] == [
        (segment["start"], segment["end"], segment["text"]) for segment in value["segments"]
    ]
    assert ["The server gave no usable times, so the whole chunk is one segment."] == value["warnings"]
    assert [] == value["doubts"]


@pytest.mark.parametrize(
    "fault", ["nan", "html", "json=[]", 'json={"text": 1}', 'json={"text": "", "segments": 3}']
)
def test_an_answer_that_is_no_transcript_is_refused(upstream: MediaUpstream, fault: str) -> None:
    upstream.faults.append(fault)
    with pytest.raises(EngineError) as caught:
        _recognised(upstream, "en")

    assert ("engine_failed", False) == (caught.value.code, caught.value.transient)


def _recognised(upstream: MediaUpstream, language: str | None, table: str = "") -> Result:
    server = engine("openai-transcription", upstream.url, table)
    result: Result = server.run(Asked({"language": language}, {"audio": PART}))
    return result


def _transcript(result: Result) -> Any:
    return json.loads(result.content)


def _bytes(address: str) -> bytes:
    return base64.b64decode(address.partition(",")[2])
