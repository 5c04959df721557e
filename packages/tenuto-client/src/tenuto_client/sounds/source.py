"""An open file that is read in small pieces, in any order but mostly forwards."""

import os
from typing import BinaryIO

_WINDOW_BYTES = 1 << 18
MOST_PADDING_BYTES = 1 << 16
"""Behind sound whose length nothing tells. Programs that download reserve a file's length beforehand."""


class Source:
    """Reads with `lseek` and `read` alone, which a confined process still may."""

    def __init__(self, file: BinaryIO) -> None:
        self._fd = file.fileno()
        self.size = os.lseek(self._fd, 0, os.SEEK_END)
        self._window, self._start = b"", 0

    def at(self, start: int, count: int) -> bytes:
        """The bytes from there on; fewer at the end of the file."""
        if start >= self.size:
            return b""
        offset = start - self._start
        if offset < 0 or offset + count > len(self._window):
            self._window, self._start, offset = self._read(start, max(count, _WINDOW_BYTES)), start, 0
        return self._window[offset : offset + count]

    def find(self, mark: bytes, start: int) -> int:
        """Where a mark stands next; the end of the file if it does not."""
        while start < self.size:
            content = self.at(start, _WINDOW_BYTES)
            found = content.find(mark)
            if found >= 0:
                return start + found
            start += max(1, len(content) - len(mark) + 1)
        return self.size

    def is_padding(self, start: int) -> bool:
        """Whether nothing is there but one byte again and again, as encoders fill up files, or line ends."""
        first = self.at(start, 1)
        while start < self.size:
            if (block := self.at(start, _WINDOW_BYTES)).strip(first) and block.strip(b"\r\n"):
                return False
            start += len(block)
        return True

    def is_little(self, start: int) -> bool:
        """Whether nothing is there but some padding; much of it stands for sound that has not arrived."""
        return self.size - start <= MOST_PADDING_BYTES and self.is_padding(start)

    def _read(self, start: int, count: int) -> bytes:
        os.lseek(self._fd, start, os.SEEK_SET)
        pieces = []
        while count > 0 and (piece := os.read(self._fd, count)):
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)


def after_id3(source: Source, at: int) -> int:
    """Behind the ID3v2 tag that begins there; `at` if none does."""
    head = source.at(at, 10)
    if head[:3] != b"ID3" or len(head) < 10:
        return at
    size = head[6] << 21 | head[7] << 14 | head[8] << 7 | head[9]
    return at + 10 + size + (10 if head[5] & 0x10 else 0)
