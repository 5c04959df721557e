"""The MD5 of decoded samples, as a FLAC's head has it. Only the decoding child imports this."""

import hashlib
from typing import Any

from tenuto.media.flac import FlacInvalid, StreamInfo

_WIDE_BYTES = 4


class Digest:
    """Samples go by; at their end the MD5 must be that of the head, when the head has one."""

    def __init__(self, info: StreamInfo) -> None:
        self._expected = info.md5
        self._is_wanted = any(info.md5)
        self._sample_bytes = -(-info.bits_per_sample // 8)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.dtype = "int16" if info.bits_per_sample == 16 else "int32"

    def add(self, samples: memoryview) -> None:
        """The next samples: full scale in 16 or 32 bits, of which the head counts the upper ones."""
        if not self._is_wanted:
            return
        if self.dtype == "int16":
            self._md5.update(samples)
            return
        # Slices of bytes are copied an order of magnitude faster than those of a memoryview.
        wide = bytes(samples)
        narrow = bytearray(len(wide) // _WIDE_BYTES * self._sample_bytes)
        for index in range(self._sample_bytes):
            narrow[index :: self._sample_bytes] = wide[
                _WIDE_BYTES - self._sample_bytes + index :: _WIDE_BYTES
            ]
        self._md5.update(narrow)

    def finish(self) -> dict[str, Any]:
        """Raises FlacInvalid."""
        if self._is_wanted and self._md5.digest() != self._expected:
            raise FlacInvalid("its samples do not have the MD5 that its head promises")
        return {}
