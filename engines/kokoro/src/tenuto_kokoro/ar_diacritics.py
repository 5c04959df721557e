"""The vowel marks that Arabic text leaves out, put back by two small networks of text2tashkeel.
Knows no sounds."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime


class Diacritics:
    """The loaded networks. One sentence at a time is best, with its punctuation.

    The ensemble decides which letters have marks; rawi decides which marks those are. Rawi by itself marks
    too many letters, but is right more often about the marks.
    """

    def __init__(self, folder: Path) -> None:
        self._where = _Network(folder / "rawi_ensemble.int8.onnx", folder / "rawi_v2.vocab.json")
        self._which = _Network(folder / "rawi.int8.onnx", folder / "rawi.vocab.json")

    def restored(self, text: str) -> str:
        """The text with all its marks, composed (NFC). Existing marks are dropped and predicted again.

        The networks see decomposed letters without marks, so a hamza on its alif is a mark to them too.
        """
        letters = [
            letter
            for letter in unicodedata.normalize("NFD", text)
            if unicodedata.category(letter) not in ("Mn", "So")
        ]
        if not letters:
            return text
        is_marked = self._where.run("gated_cls", letters) != 0
        classes = self._which.run("output", letters).argmax(-1)
        marked = (
            letter + (self._which.marks[int(found)] if has and unicodedata.category(letter)[0] == "L" else "")
            for letter, has, found in zip(letters, is_marked, classes, strict=True)
        )
        return unicodedata.normalize("NFC", "".join(marked))


class _Network:
    """One network: letters in; marks by the number of their class."""

    def __init__(self, model: Path, vocabulary: Path) -> None:
        known = json.loads(vocabulary.read_text("utf-8"))
        self._letters: dict[str, int] = known["char_to_idx"]
        self.marks = {index: marks for marks, index in known["diac_to_idx"].items()}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def run(self, output: str, letters: list[str]) -> npt.NDArray[Any]:
        """An output, without the dimension of the batch."""
        unknown = self._letters.get("<UNK>", 1)
        tokens = np.array([[self._letters.get(letter, unknown) for letter in letters]], dtype=np.int64)
        found: npt.NDArray[Any] = self._session.run([output], {"input": tokens})[0][0]
        return found
