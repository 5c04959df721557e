"""CTranslate2's file of a Whisper model, read as arrays. Knows the format, not what the numbers are for.

The format: a head, then for each variable its name, shape, kind of number and bytes, then names that stand
for other variables (https://github.com/OpenNMT/CTranslate2/blob/master/python/ctranslate2/specs/model_spec.py).
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_VERSION = 6
_SPECIFICATION = "WhisperSpec"
_KINDS = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}


class ModelFile:
    """The variables of a model by name. Bytes are read from the disk as they are asked for."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        version, specification = self._number("I"), self._name()
        self._number("I")
        if (version, specification) != (_VERSION, _SPECIFICATION):
            raise ValueError(f"{path} is {specification} {version}, not {_SPECIFICATION} {_VERSION}")
        self._variables: dict[str, tuple[str, tuple[int, ...], int]] = {}
        for _ in range(self._number("I")):
            self._note_variable()

    def __getitem__(self, name: str) -> Floats:
        """A variable as 32-bit numbers, exact: what is stored has 16 bits."""
        kind, shape, at = self._variables[name]
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._content, kind, count, at).reshape(shape).astype(np.float32)

    def layers(self, stack: str) -> int:
        """How many layers the encoder or the decoder has."""
        begin = f"{stack}/layer_"
        found = {name.split("/")[1] for name in self._variables if name.startswith(begin)}
        return len(found - {"layer_norm"})

    def heads(self, stack: str) -> int:
        """How many heads each of its attentions has."""
        return int(self[f"{stack}/num_heads"])

    def _note_variable(self) -> None:
        name = self._name()
        shape = tuple(self._number("I") for _ in range(self._number("B")))
        kind = _KINDS[self._number("B")]
        length = self._number("I")
        self._variables[name] = (kind, shape, self._at)
        self._at += length

    def _name(self) -> str:
        length = self._number("H")
        found = self._content[self._at : self._at + length].rstrip(b"\0").decode()
        self._at += length
        return found

    def _number(self, kind: str) -> int:
        (found,) = struct.unpack_from("<" + kind, self._content, self._at)
        self._at += struct.calcsize("<" + kind)
        return int(found)
