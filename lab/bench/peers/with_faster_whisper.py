"""faster-whisper, as its README calls it on a processor; `batch` windows at once where that is not 0."""

from typing import Any

import numpy as np
from answering import Answer, answer


def load(options: dict[str, Any]) -> Answer:
    """`model`: the folder with the weights in CTranslate2's format."""
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    model = WhisperModel(
        options["model"],
        device="cpu",
        compute_type="int8",
        cpu_threads=options["threads"],
        local_files_only=True,
    )
    how: dict[str, Any] = {"language": "en", "beam_size": 5, "vad_filter": True}
    pipeline: Any = model
    if options["batch"]:
        pipeline, how["batch_size"] = BatchedInferencePipeline(model), options["batch"]

    def transcribe(request: dict[str, Any]) -> dict[str, Any]:
        segments, about = pipeline.transcribe(np.fromfile(request["samples"], np.float32), **how)
        return {"text": "".join(segment.text for segment in segments), "seconds": about.duration}

    return transcribe


if __name__ == "__main__":
    answer(load)
