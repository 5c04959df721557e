"""The libraries that run the model: ONNX Runtime, or OpenVINO where it is installed and the processor is fast
with it. Knows no symbols and no voices."""

from __future__ import annotations

import ctypes
import hashlib
import inspect
import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt
import onnxruntime

from tenuto_engine import EngineError
from tenuto_engine.processor import fault, flags

from . import compiled, graph, operations, patterns, products

AUTO = "auto"
OPENVINO, ONNXRUNTIME = "openvino", "onnxruntime"

DURATIONS = "/encoder/predictor/ReduceSum_output_0"
"""The model's inner value that says how long each symbol lasts, before the speed acts on it."""

DECODED: Mapping[str, graph.Shape] = MappingProxyType(
    {
        "/encoder/MatMul_1_output_0": (1, 512, None),
        "/encoder/Reshape_output_0": (1, None),
        "/encoder/Reshape_1_output_0": (1, None),
        "/decoder/decoder/generator/Concat_3_output_0": (1, 22, None),
    }
)
"""What is given to the decoder, beside the style: the text by frames of 25 ms; the pitch and the loudness by
half frames; the spectrum of the harmonic source by sixtieths of half frames, as sizes and angles of eleven
frequencies. The source is the sine of an angle that grows to 40,000 and more, where neighbouring 32-bit
numbers are 0.004 apart. So its weak frequencies depend on how a runtime rounds, and their angles count as
much as those of the strong ones: the decoder must get them from the runtime that the whole model runs in."""

DECODER_SHA256 = "b667f7985c908594f99349c615d0681d994041998e1fd36a716da53f065d4956"
"""Of the decoder as it is rewritten from the shipped weights: it changes with `operations` and the ranges."""

COMPILED = ".compiled"
"""Beside the weights: the folder of what a runtime made of them."""

ERRORS = 3
"""ONNX Runtime's severity: it logs no warnings."""

NO_GENERATED_CODE_KEPT = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")
"""For oneDNN, which OpenVINO computes with: else it keeps 1,024 operations, each generated for one shape. As
hardly two segments have the same length, that is 8 MB for each segment."""

INSTRUCTIONS = ("avx512_vnni", "avx_vnni")
"""Either multiplies 8-bit numbers fast; with neither, OpenVINO takes about as much of the processor as ONNX
Runtime, and more memory."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h. What is free at the end of the heap is given back from the one size on; from the other
on, a block is mapped by itself, and unmapped when it is freed."""
LARGE_BLOCK_BYTES = 1 << 20

Floats = npt.NDArray[np.float32]
Feed = Mapping[str, npt.NDArray[Any]]


class Runtime(Protocol):
    """A loaded model; its methods may be called from several threads at once."""

    name: str

    def samples(self, feed: Feed) -> Floats:
        """What the whole model makes of its inputs."""

    def durations(self, feed: Feed) -> Floats:
        """[1, symbols]: how long each lasts."""


def loaded(model: Path, threads: int, wanted: str) -> tuple[Runtime, str]:
    """The model in the runtime that is wanted, and what the operator should know, or "": with AUTO the reason
    why it is not OpenVINO; why the model has to be optimised or compiled at each load.

    Raises EngineError for a name that is none of the three, and if OPENVINO is wanted and cannot run here.
    """
    if wanted not in (AUTO, OPENVINO, ONNXRUNTIME):
        message = f"the option runtime is {wanted!r}; it can be {AUTO}, {OPENVINO} or {ONNXRUNTIME}"
        raise EngineError("runtime_unknown", message)
    reason = "" if wanted == ONNXRUNTIME else lacking()
    if reason and wanted == OPENVINO:
        raise EngineError("runtime_unavailable", f"OpenVINO cannot run here: {reason}")
    is_onnx = bool(reason) or wanted == ONNXRUNTIME
    runtime = OnnxRuntime(model, threads) if is_onnx else OpenVino(model, threads)
    return runtime, "; ".join(filter(None, (reason, runtime.reason)))


def lacking(cpuinfo: str = "") -> str:
    """Why OpenVINO is not used on this machine; "" if it can be. `cpuinfo`: in place of /proc/cpuinfo."""
    faults = [fault({"x86_64": [instruction]}, cpuinfo=cpuinfo) for instruction in INSTRUCTIONS]
    if all(faults):
        return faults[0]
    # openvino imports it if it is installed, to report how its converter is used. Without it nothing is sent.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino  # noqa: F401
    except (ImportError, OSError) as error:
        return f"openvino cannot be imported: {error}"
    return ""


class OnnxRuntime:
    """The file, its convolutions as products of matrices: it quantises by the ranges of each call, so that
    calls at once do not change each other's samples. They share the weights and the threads, and each adds
    the one that it comes from."""

    name = ONNXRUNTIME

    def __init__(self, model: Path, threads: int) -> None:
        self._sessions = _Sessions(model, threads)
        self._whole = self._sessions.optimised()
        self.reason = self._sessions.reason
        """Why what was optimised could not be kept for the next load, or ""."""

    def samples(self, feed: Feed) -> Floats:
        """As in the protocol."""
        return self._sessions.run(self._whole, feed)[0]

    def durations(self, feed: Feed) -> Floats:
        """As in the protocol."""
        return self._sessions.durations(feed)


class OpenVino:
    """The decoder, which takes nearly all of the time, with fixed ranges in OpenVINO; what decides on
    durations and melody as in the file."""

    name = OPENVINO

    def __init__(self, model: Path, threads: int) -> None:
        # oneDNN reads it when it is first used.
        os.environ.setdefault(*NO_GENERATED_CODE_KEPT)
        import openvino

        _return_large_blocks()
        self._sessions = _Sessions(model, threads)
        self._encoder = self._sessions.optimised(list(DECODED))
        self._settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            # Where others compute, too, a thread that is bound to a core waits for that core.
            "ENABLE_CPU_PINNING": False,
            # Else bfloat16 where the processor has it, and with it other samples.
            "INFERENCE_PRECISION_HINT": "f32",
            # Segments are of all lengths: what was prepared for one is hardly ever used again.
            "CPU_RUNTIME_CACHE_CAPACITY": 0,
        }
        self._core = openvino.Core()
        self.reason = self._sessions.reason
        """Why what was compiled could not be kept for the next load, or ""."""
        self._content, self._decoder = self._load(model)
        self._request = self._decoder.create_infer_request()
        self._decoding = threading.Lock()
        """Held by the call that has the request."""

    def samples(self, feed: Feed) -> Floats:
        """As in the protocol, one call after the other in the decoder, which keeps all threads busy. What a
        segment took is given back after it, and so are the weights that were read: OpenVINO holds them in an
        order of its own."""
        values = dict(zip(DECODED, self._sessions.run(self._encoder, feed), strict=True))
        with self._decoding:
            self._request.infer({"style": feed["style"], **values}, share_inputs=True)
            samples: Floats = self._request.get_output_tensor(0).data.copy()
            self._content.release()
            self._decoder.release_memory()
        return samples

    def _load(self, model: Path) -> tuple[compiled.Content, Any]:
        """The decoder is always imported, whether it was compiled now or before: so the samples are the same,
        and compiling leaves less in memory."""
        kept = compiled.Kept(model.parent / COMPILED, self._depends_on(model))
        content = kept.read()
        if content is not None:
            with suppress(RuntimeError):
                return content, self._imported(content)
        content, self.reason = kept.written(self._compiled(model))
        return content, self._imported(content)

    def _depends_on(self, model: Path) -> list[str]:
        import openvino

        own = [self._sessions.weights_sha256, DECODER_SHA256, openvino.__version__, repr(self._settings)]
        return [*own, *flags()]

    def _compiled(self, model: Path) -> compiled.Content:
        rewritten = self._core.read_model(graph.part(model, inputs=DECODED, rewrite=operations.fast))
        exported = io.BytesIO()
        self._core.compile_model(rewritten, "CPU", self._settings).export_model(exported)
        return compiled.Content(np.frombuffer(exported.getbuffer(), np.uint8))

    def _imported(self, content: compiled.Content) -> Any:
        from openvino import Tensor

        return self._core.import_model(Tensor(content.array, shared_memory=True), "CPU", self._settings)

    def durations(self, feed: Feed) -> Floats:
        """As in the protocol."""
        return self._sessions.durations(feed)


def _return_large_blocks() -> None:
    """Else glibc keeps up to 32 MiB of each size that was freed, and a long segment's memory adds up."""
    with suppress(AttributeError, OSError):  # another C library
        for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(option, LARGE_BLOCK_BYTES)


class _Sessions:
    """Parts of the file in ONNX Runtime."""

    def __init__(self, model: Path, threads: int) -> None:
        self._model, self._threads = model, threads
        self.reason = ""
        """Why what was optimised could not be kept for the next load, or ""."""
        self._run_options = onnxruntime.RunOptions()
        # What a long segment took is given back after it, or the memory of all shapes would add up.
        self._run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    @cached_property
    def weights_sha256(self) -> str:
        with self._model.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def optimised(self, outputs: Sequence[str] = ()) -> onnxruntime.InferenceSession:
        """A session of a part of the model, rewritten. It is always loaded from what ONNX Runtime made of it,
        whether now or before: rewriting and optimising take two thirds of a load's processor time."""
        kept = compiled.Kept(self._model.parent / COMPILED, self._depends_on(outputs))
        content = kept.read()
        if content is None:
            content, self.reason = kept.written(self._optimised(outputs))
        with _in_memory() as file:
            file.write(content.array.data)
            file.flush()
            return self._session(file, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)

    def part(self, outputs: Sequence[str]) -> onnxruntime.InferenceSession:
        """A session of a part of the model, as the file has it."""
        with _in_memory() as file:
            graph.write_part(self._model, file, outputs)
            file.flush()
            return self._session(file)

    def run(self, session: onnxruntime.InferenceSession, feed: Feed) -> list[Floats]:
        needed = {each.name: feed[each.name] for each in session.get_inputs()}
        found: list[Floats] = session.run(None, needed, self._run_options)
        return found

    def durations(self, feed: Feed) -> Floats:
        return self.run(self._timing, feed)[0]

    @cached_property
    def _timing(self) -> onnxruntime.InferenceSession:
        """A sixth of the model, which takes a fiftieth of the time of all of it."""
        return self.part([DURATIONS])

    def _depends_on(self, outputs: Sequence[str]) -> list[str]:
        rewriting = [inspect.getsource(module) for module in (graph, patterns, products)]
        return [self.weights_sha256, *rewriting, *outputs, onnxruntime.__version__, *flags()]

    def _optimised(self, outputs: Sequence[str]) -> compiled.Content:
        with _in_memory() as file, _in_memory() as made:
            graph.write_part(self._model, file, outputs, rewrite=products.fast)
            file.flush()
            self._session(file, optimised=made)
            return compiled.Content(np.frombuffer(Path(_path(made)).read_bytes(), np.uint8))

    def _session(
        self,
        file: BinaryIO,
        level: onnxruntime.GraphOptimizationLevel = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
        *,
        optimised: BinaryIO | None = None,
    ) -> onnxruntime.InferenceSession:
        """Of a model in a file in memory: of one that is given as bytes, a session keeps them as long as it
        lives, beside the weights that it reads from them. `optimised`: a file for what it makes of it."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        # Threads that spin between operators take the processor from other engines: 20 sentences in turns
        # took 0.43 instead of 0.51 s of it for a second of speech, in 5 % more time on a machine that does
        # nothing else, and in 5 % less beside others.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Else it plans which value takes another one's memory, and compares each with all that are free: two
        # thirds of the time of loading, and nothing is won.
        options.enable_mem_reuse = False
        if optimised is not None:
            options.optimized_model_filepath = _path(optimised)
            # It warns that what it made is for this processor: so is the name that it is kept under.
            options.log_severity_level = ERRORS
        return onnxruntime.InferenceSession(_path(file), options, providers=["CPUExecutionProvider"])


@contextmanager
def _in_memory() -> Iterator[BinaryIO]:
    with os.fdopen(os.memfd_create("model"), "w+b") as file:
        yield file


def _path(file: BinaryIO) -> str:
    return f"/proc/self/fd/{file.fileno()}"
