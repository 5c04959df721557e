"""As indextts25-inference 0.2.0 has it under its short interface: no emotions from texts, vectors as they
come; what was drawn is honoured; silences stand between segments alone; each segment comes with its text."""
# ruff: noqa: PLR0917 (its arguments are the package's)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import playbook
import torch

RATE = 22050


class IndexTTS2:
    def __init__(
        self, cfg_path: Any = "checkpoints/config.yaml", model_dir: Any = "checkpoints",
        use_bf16: Any = False, device: Any = None, use_accel: Any = False,
    ) -> None:  # fmt: skip
        self._playbook = playbook.Playbook(model_dir)
        self._playbook.note("load", cfg_path=cfg_path, use_bf16=use_bf16, device=device)

    def infer_generator(
        self, spk_audio_prompt: Any, text: Any, output_path: Any, lang: Any, emo_audio_prompt: Any = None,
        emo_alpha: Any = 1.0, emo_vector: Any = None, use_random: Any = False, interval_silence: Any = 200,
        verbose: Any = False, max_text_tokens_per_segment: Any = 120, stream_return: Any = False,
        duration_factor: Any = 1.0, text_normalization: Any = True, emit_text: Any = False,
        **generation_kwargs: Any,
    ) -> Iterator[Any]:  # fmt: skip
        asked = {name: value for name, value in locals().items() if name not in ("self", "generation_kwargs")}
        self._playbook.note("infer_generator", **asked, **generation_kwargs)
        unknown = set(generation_kwargs) - {
            *("do_sample", "top_p", "top_k", "temperature", "repetition_penalty", "num_beams"),
        }
        if unknown:
            # They reach transformers' generate, which refuses what it does not know.
            raise ValueError(f"The following `model_kwargs` are not used by the model: {sorted(unknown)}")
        assert Path(spk_audio_prompt).is_file(), "the package looks at its name and its date"
        limit = max_text_tokens_per_segment
        texts = [text[start : start + limit] for start in range(0, len(text), limit)]
        for index, part in enumerate(texts):
            wav = torch.Tensor(np.full((1, int(441 * len(part) * duration_factor)), 9000.4, np.float32))
            yield (wav, part) if emit_text else wav
            if index < len(texts) - 1 and interval_silence > 0:
                silence = torch.Tensor(np.zeros((1, RATE * interval_silence // 1000), np.float32))
                yield (silence, "") if emit_text else silence
