"""whisper.cpp by pywhispercpp, with a beam of 5 as the others."""

from typing import Any

import numpy as np
from answering import Answer, answer

RATE = 16_000


def load(options: dict[str, Any]) -> Answer:
    """`model`: the weights as a file in ggml's format."""
    from pywhispercpp.model import Model

    model = Model(
        options["model"],
        params_sampling_strategy=1,
        beam_search={"beam_size": 5, "patience": -1.0},
        n_threads=options["threads"],
        language="en",
        print_progress=False,
        redirect_whispercpp_logs_to=None,
    )

    def transcribe(request: dict[str, Any]) -> dict[str, Any]:
        samples = np.fromfile(request["samples"], np.float32)
        segments = model.transcribe(samples)
        return {"text": " ".join(segment.text for segment in segments), "seconds": len(samples) / RATE}

    return transcribe


if __name__ == "__main__":
    answer(load)
