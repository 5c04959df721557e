"""The vowel marks that Arabic text leaves out, put back by a small network (rawi-ensemble of text2tashkeel).
Knows no sounds."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import onnxruntime


class Diacritics:
    """The loaded network: one class of marks for each letter. One sentence at a time is best."""

    def __init__(self, folder: Path) -> None:
        vocabulary = json.loads((folder / "rawi_v2.vocab.json").read_text("utf-8"))
        self._letters: dict[str, int] = vocabulary["char_to_idx"]
        self._marks = {index: marks for marks, index in vocabulary["diac_to_idx"].items()}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(folder / "rawi_ensemble.int8.onnx"), options, providers=["CPUExecutionProvider"]
        )

    def restored(self, text: str) -> str:
        """The text with all its marks, composed (NFC). Existing marks are dropped and predicted again.

        The network sees decomposed letters without marks, so a hamza on its alif is a mark to it too.
        """
        letters = [
            letter
            for letter in unicodedata.normalize("NFD", text)
            if unicodedata.category(letter) not in ("Mn", "So")
        ]
        if not letters:
            return text
        unknown = self._letters.get("<UNK>", 1)
        tokens = np.array([[self._letters.get(letter, unknown) for letter in letters]], dtype=np.int64)
        classes = self._session.run(["gated_cls"], {"input": tokens})[0][0]
        marked = (
            letter + (self._marks[int(found)] if unicodedata.category(letter)[0] == "L" else "")
            for letter, found in zip(letters, classes, strict=True)
        )
        return unicodedata.normalize("NFC", "".join(marked))
