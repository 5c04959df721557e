"""The model in ONNX Runtime. Knows no symbols and no voices."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import onnxruntime

from tenuto_engine.processor import flags

from . import graph, patterns, products
from .kept import Kept

RUNTIME = "onnxruntime"

DURATIONS = "/encoder/predictor/ReduceSum_output_0"
"""The model's inner value that says how long each symbol lasts, before the speed acts on it."""

OPTIMISED = ".compiled"
"""Beside the weights: the folder of what ONNX Runtime made of them."""

ERRORS = 3
"""ONNX Runtime's severity: it logs no warnings."""

Floats = npt.NDArray[np.float32]
Feed = Mapping[str, npt.NDArray[Any]]


class Model:
    """The file, its convolutions as products of matrices. Its methods may be called from several threads at
    once: the file quantises by the ranges of each call, so that calls do not change each other's samples.
    They share the weights and the threads, and each adds the thread that it comes from."""

    def __init__(self, path: Path, threads: int) -> None:
        self._path, self._threads = path, threads
        self.reason = ""
        """Why what was optimised could not be kept for the next load, or ""."""
        self._run_options = onnxruntime.RunOptions()
        # What a long segment took is given back after it, or the memory of all shapes would add up.
        self._run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self._whole = self._rewritten()

    def samples(self, feed: Feed) -> Floats:
        """What the whole model makes of its inputs."""
        return self._run(self._whole, feed)

    def durations(self, feed: Feed) -> Floats:
        """[1, symbols]: how long each lasts."""
        return self._run(self._timing, feed)

    def _run(self, session: onnxruntime.InferenceSession, feed: Feed) -> Floats:
        needed = {each.name: feed[each.name] for each in session.get_inputs()}
        found: list[Floats] = session.run(None, needed, self._run_options)
        return found[0]

    @cached_property
    def _timing(self) -> onnxruntime.InferenceSession:
        """A sixth of the model, which takes a fiftieth of the time of all of it."""
        return self._part([DURATIONS])

    def _part(self, outputs: Sequence[str] = ()) -> onnxruntime.InferenceSession:
        """A session of a part of the model, as the file has it; without outputs, of all of it."""
        with _in_memory() as file:
            graph.write_part(self._path, file, outputs)
            file.flush()
            return self._session(file)

    def _rewritten(self) -> onnxruntime.InferenceSession:
        """The model is always loaded from what ONNX Runtime made of it, whether now or before: rewriting and
        optimising take two thirds of a load's processor time."""
        kept = Kept(self._path.parent / OPTIMISED, self._depends_on())
        content = kept.read()
        if content is None:
            content, self.reason = kept.written(self._optimised())
        with _in_memory() as file:
            file.write(content)
            file.flush()
            return self._session(file, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)

    def _depends_on(self) -> list[str]:
        with self._path.open("rb") as file:
            weights_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        rewriting = [inspect.getsource(module) for module in (graph, patterns, products)]
        return [weights_sha256, *rewriting, onnxruntime.__version__, *flags()]

    def _optimised(self) -> memoryview:
        with _in_memory() as file, _in_memory() as made:
            graph.write_part(self._path, file, rewrite=products.fast)
            file.flush()
            self._session(file, optimised=made)
            return memoryview(Path(_name(made)).read_bytes())

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
            options.optimized_model_filepath = _name(optimised)
            # It warns that what it made is for this processor: so is the name that it is kept under.
            options.log_severity_level = ERRORS
        return onnxruntime.InferenceSession(_name(file), options, providers=["CPUExecutionProvider"])


@contextmanager
def _in_memory() -> Iterator[BinaryIO]:
    with os.fdopen(os.memfd_create("model"), "w+b") as file:
        yield file


def _name(file: BinaryIO) -> str:
    return f"/proc/self/fd/{file.fileno()}"
