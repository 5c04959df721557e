"""Speaker embeddings, 256 numbers each: the cosine of two embeddings measures how similar two voices are.

The model is Resemblyzer's encoder (Apache-2.0, https://github.com/resemble-ai/Resemblyzer; generalised
end-to-end loss, https://arxiv.org/abs/1710.10467): three LSTM layers over 40 mel bands, in ONNX Runtime. The
graph is in this package; its weights are in the file that the model's makers publish.
Shared by the engines that separate speakers and those that imitate them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tenuto_engine_kit import mel

Floats = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
DIMENSIONS = 256

_LEVEL = 0.05
"""Every clip is scaled to this root mean square (-26 dB): loudness does not identify a speaker."""
_WINDOW, _STEP, _BANDS = 400, 160, 40
_PARTIAL = 160
"""Frames in one input of the encoder: 1.6 s."""
_PARTIAL_STEP = 77
"""Frames from one input to the next: 1.3 a second."""
_LEAST_COVERAGE = 0.75
"""A last input with a smaller share of audio is left out."""
_BATCH = 64
"""Inputs encoded at once: memory stays under 60 MB."""

_GRAPH = "speaker_encoder.onnx"
"""Made by `scripts/make_speaker_graph.py`, which says where in the file the weights are."""
_WEIGHTS, _FILE_BYTES = "resemblyzer.pt", 17_090_379
"""The file is pinned by its hash, so its weights are always at the same bytes. Nothing of it is unpickled."""


class SpeakerEncoder:
    """The loaded model; any number of threads may use it."""

    def __init__(self, weights: Path, threads: int = 1) -> None:
        import onnxruntime

        size = weights.stat().st_size
        if size != _FILE_BYTES or weights.name != _WEIGHTS:
            raise ValueError(f"{weights} is not the encoder's file {_WEIGHTS}: it has {size} bytes")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        folder = "session.model_external_initializers_file_folder_path"
        options.add_session_config_entry(folder, str(weights.parent))
        graph = Path(__file__).with_name(_GRAPH).read_bytes()
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._bands = mel.slaney(_BANDS, _WINDOW, SAMPLE_RATE).astype(np.float32)

    def embed(self, samples: Floats) -> Floats:
        """The embedding of a clip: mono, 16 kHz, -1..1. Of unit length; all zero for silence."""
        embedded: Floats = self.embed_all([samples])[0]
        return embedded

    def embed_all(self, clips: Sequence[Floats]) -> Floats:
        """[clips, 256]. Many clips at once are faster than one by one."""
        looks: list[Floats] = []
        owners: list[int] = []
        for owner, clip in enumerate(clips):
            found = self._looks(clip)
            looks += found
            owners += [owner] * len(found)
        sums = np.zeros((len(clips), DIMENSIONS), np.float32)
        for start in range(0, len(looks), _BATCH):
            encoded = self._encoded(np.stack(looks[start : start + _BATCH]))
            np.add.at(sums, owners[start : start + _BATCH], encoded)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        embeddings: Floats = np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0)
        return embeddings

    def _looks(self, clip: Floats) -> list[Floats]:
        """Pieces of 1.6 s of the mel spectrogram, half overlapping; a short clip is padded with silence."""
        level = float(np.sqrt(np.mean(np.square(clip)))) if len(clip) else 0.0
        if not level:
            return []
        count = -(-(len(clip) + 1) // _STEP)
        starts = range(0, max(1, count - _PARTIAL + _PARTIAL_STEP + 1), _PARTIAL_STEP)
        last = starts[-1]
        if len(starts) > 1 and (len(clip) / _STEP - last) / _PARTIAL < _LEAST_COVERAGE:
            starts = starts[:-1]
            last = starts[-1]
        padded = np.pad(clip * np.float32(_LEVEL / level), (0, max(0, (last + _PARTIAL) * _STEP - len(clip))))
        spectrogram = self._spectrogram(padded)
        return [spectrogram[start : start + _PARTIAL] for start in starts]

    def _spectrogram(self, samples: Floats) -> Floats:
        """Mel energies (no logarithm) of frames centred on every tenth millisecond."""
        padded = np.pad(samples, _WINDOW // 2)
        frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_STEP]
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)
        power = np.abs(np.fft.rfft(frames * window.astype(np.float32))) ** 2
        return (power @ self._bands).astype(np.float32)

    def _encoded(self, looks: Floats) -> Floats:
        """The embedding of each look, [looks, 256]."""
        (raw,) = self._session.run(None, {"looks": looks})
        lengths = np.linalg.norm(raw, axis=1, keepdims=True)
        found: Floats = np.divide(raw, lengths, out=np.zeros_like(raw), where=lengths > 0)
        return found
