"""`python -m lab.bench --only libraries`: whisper.cpp's weights, turns and table; no model is loaded."""

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab.bench import libraries
from lab.bench.ggml import blocks, write
from lab.bench.libraries import MISSING, Contestant, Figures, in_turns, rows

WIDTH, VOCABULARY = 64, 70
"""Of an untrained Whisper model with one layer on each side."""
PROGRAM = """
from lab.bench.peers.answering import answer

def load(options):
    print("A library prints.")
    return lambda request: {"text": request["text"] + options["ending"], "seconds": 2.0}

answer(load)
"""


def model(folder: Path) -> dict[str, Any]:
    """A model as CTranslate2 keeps it; gives its tensors."""
    chance = np.random.default_rng(1)
    tensors: dict[str, Any] = {"decoder/embeddings/weight": (VOCABULARY, WIDTH)}
    for side in ("encoder", "decoder"):
        layer = f"{side}/layer_0"
        tensors |= {f"{side}/position_encodings/encodings": (5, WIDTH)}
        attentions = {"self_attention": (3, 1)} | ({"attention": (1, 2, 1)} if side == "decoder" else {})
        linears = {f"{name}/linear_{at}": n for name, all_ in attentions.items() for at, n in enumerate(all_)}
        for name, times in (linears | {"ffn/linear_0": 1, "ffn/linear_1": 1}).items():
            tensors |= {
                f"{layer}/{name}/weight": (times * WIDTH, WIDTH),
                f"{layer}/{name}/bias": (times * WIDTH,),
            }
        for name in (f"{side}/", *(f"{layer}/{one}/" for one in [*attentions, "ffn"])):
            tensors |= {f"{name}layer_norm/{one}": (WIDTH,) for one in ("gamma", "beta")}
    for name in ("conv1", "conv2"):
        tensors |= {f"encoder/{name}/weight": (WIDTH, 8, 3), f"encoder/{name}/bias": (WIDTH,)}
    values = {name: chance.normal(size=shape).astype(np.float16) for name, shape in tensors.items()}
    content = struct.pack("<IH", 6, 12) + b"WhisperSpec\0" + struct.pack("<II", 3, len(values))
    for name, value in values.items():
        content += struct.pack("<H", len(name) + 1) + name.encode() + b"\0"
        content += struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        content += struct.pack("<BI", 4, value.nbytes) + value.tobytes()
    (folder / "model.bin").write_bytes(content)
    (folder / "tokenizer.json").write_text(
        '{"model": {"vocab": {"a": 1, "Ġb": 0, "<|en|>": 50259}}}', "utf-8"
    )
    return values


def test_numbers_in_eight_bits_differ_by_less_than_a_step() -> None:
    """Q8_0: 34 bytes for 32 numbers, the first two a scale; zeros stay zeros."""
    values = np.random.default_rng(1).normal(size=(3, 64)).astype(np.float32)
    values[1] = 0
    read = np.frombuffer(blocks(values), np.dtype([("scale", "<f2"), ("numbers", "i1", 32)]))
    again = (read["scale"].astype(np.float32)[:, None] * read["numbers"]).reshape(values.shape)

    assert 6 * 34 == len(blocks(values))
    assert float(np.abs(values).max()) / 200 > float(np.abs(again - values).max())
    assert not again[1].any()


def test_the_file_for_whisper_cpp_has_all_tensors_with_their_shapes(tmp_path: Path) -> None:
    """Header, filters, the text tokens as bytes, then every tensor: matrices in 8 bits, key without bias."""
    given = model(tmp_path)
    write(tmp_path, tmp_path / "ggml")
    content = (tmp_path / "ggml").read_bytes()
    header = struct.unpack_from("<14i", content)
    at = 14 * 4 + header[12] * header[13] * 4
    tokens = content[at : at + 4 + 4 + 2 + 4 + 1]
    at += len(tokens)
    tensors = {}
    while at < len(content):
        dimensions, length, kind = struct.unpack_from("<3i", content, at)
        shape = struct.unpack_from(f"<{dimensions}i", content, at + 12)[::-1]
        at += 12 + 4 * dimensions
        name = content[at : at + length].decode()
        size = int(np.prod(shape)) * {0: 4, 1: 2}.get(kind, 34 / 32)
        tensors[name] = (kind, shape, content[at + length : at + length + round(size)])
        at += length + round(size)

    assert (0x67676D6C, VOCABULARY, 1500, WIDTH, 1, 1, 448, WIDTH, 1, 1, 80, 2007, 80, 201) == header
    assert struct.pack("<2i2si1s", 2, 2, b" b", 1, b"a") == tokens
    assert (8, (WIDTH, WIDTH)) == tensors["decoder.blocks.0.cross_attn.value.weight"][:2]
    assert (1, (WIDTH, 8, 3)) == tensors["encoder.conv1.weight"][:2]
    assert given["encoder/conv2/bias"].astype(np.float32).tobytes() == tensors["encoder.conv2.bias"][2]
    assert not [name for name in tensors if name.endswith("key.bias")]
    assert 18 + 27 + 4 + 1 == len(tensors)


def test_programs_answer_in_turns_and_one_that_is_not_installed_has_no_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a library prints does not disturb; every load and every round counts once."""
    monkeypatch.setattr(libraries, "PYTHON", tmp_path / "python")
    ours = Contestant("ours", (sys.executable, "-c", PROGRAM), {"ending": "!"})
    theirs = Contestant("theirs", (str(tmp_path / "python"), "program.py"), {})
    every = in_turns([ours, theirs], [{"text": "One"}, {"text": "two"}], {"text": "zero"})
    [(_, figures), (_, missing)] = every.values()

    assert "One! two!" == figures.text
    assert (libraries.LOADS, libraries.ROUNDS, 4.0) == (
        len(figures.loads),
        len(figures.rounds),
        figures.sound_s,
    )
    assert figures.peak_mib > 1
    assert MISSING == rows("speech", every)[1].value
    assert [] == missing.rounds


def test_our_engine_is_limited_by_the_best_library_unless_it_does_more() -> None:
    """By processor time, the median of the rounds."""

    def figures(*cpu: float) -> Figures:
        return Figures([(1.0, 0.5)], [(0.9, one) for one in cpu], 20.0, "", 300.0)

    own, other = (sys.executable,), ("python",)
    table = rows(
        "speech",
        {
            "fast": (Contestant("fast", own, {}), figures(0.2, 0.5, 0.3)),
            "slow": (Contestant("slow", own, {}), figures(0.6)),
            "more": (Contestant("more", own, {}, "sings"), figures(0.6)),
            "best": (Contestant("best", other, {}), figures(0.4)),
            "next": (Contestant("next", other, {}), figures(0.5)),
        },
        {"best": "; 1 % wrong"},
    )

    assert [True, False, None, None, None] == [row.passed for row in table]
    assert ("0.300 s of the processor for a second", "≤ 0.440 s") == (table[0].value, table[0].limit)
    assert table[2].reason.startswith("also sings; ")
    assert table[3].reason.endswith("; 1 % wrong")
