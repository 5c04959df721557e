"""The MD5 of decoded samples, as a FLAC's head has it. Only the decoding child imports this."""

import hashlib
import threading

import numpy as np

from tenuto.media.flac import FlacInvalid, StreamInfo

_NARROW_BYTES, _WIDE_BYTES = 2, 4


class Digest:
    """Samples go by; at their end the MD5 must be that of the head, when the head has one.

    A block is hashed in a thread while the next one is decoded.
    """

    def __init__(self, info: StreamInfo) -> None:
        self._expected = info.md5
        self._is_wanted = any(info.md5)
        self._own_bytes = -(-info.bits_per_sample // 8)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._hashing: threading.Thread | None = None
        self.dtype = "int16" if info.bits_per_sample == 16 else "int32"
        """As soundfile names it; samples come interleaved."""
        self.sample_bytes = _NARROW_BYTES if self.dtype == "int16" else _WIDE_BYTES

    def add(self, samples: memoryview) -> None:
        """The next samples, full scale in 16 or 32 bits, of which the head counts the upper ones.

        They stay as they are until the call after the next.
        """
        if self._is_wanted:
            self._wait()
            self._hashing = threading.Thread(target=self._hash, args=(samples,))
            self._hashing.start()

    def finish(self) -> None:
        """All samples have come. Raises FlacInvalid."""
        self._wait()
        if self._is_wanted and self._md5.digest() != self._expected:
            raise FlacInvalid("its samples do not have the MD5 that its head promises")

    def _hash(self, samples: memoryview) -> None:
        if self.dtype == "int16":
            self._md5.update(samples)
        else:
            wide = np.frombuffer(samples, np.uint8).reshape(-1, _WIDE_BYTES)
            self._md5.update(wide[:, _WIDE_BYTES - self._own_bytes :].tobytes())

    def _wait(self) -> None:
        if self._hashing is not None:
            self._hashing.join()
            self._hashing = None
