"""As microsoft/VibeVoice has it. Of its traps: samples in memory are taken for 24 kHz whatever rate is named,
the tokenizer is another model's, and an answer that is no JSON is read as no segments, in silence."""
# ruff: noqa: PLR0917 (its arguments are the package's)

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

_NAMES = {
    "Start time": "start_time",
    "Start": "start_time",
    "End time": "end_time",
    "End": "end_time",
    "Speaker ID": "speaker_id",
    "Speaker": "speaker_id",
    "Content": "text",
}


class VibeVoiceASRProcessor:
    def __init__(self) -> None:
        self.pad_id = 0
        self.tokenizer = type("Tokenizer", (), {"eos_token_id": 1})()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, **kwargs: Any) -> VibeVoiceASRProcessor:
        if "qwen" not in kwargs.pop("language_model_pretrained_name", "Qwen/Qwen2.5-1.5B").lower():
            raise ValueError("Unsupported tokenizer type")
        return cls()

    def __call__(
        self, audio: Any = None, sampling_rate: Any = None, return_tensors: Any = None, padding: Any = True,
        max_length: Any = None, truncation: Any = False, add_generation_prompt: Any = True,
        use_streaming: Any = True, context_info: Any = None, **kwargs: Any,
    ) -> dict[str, Any]:  # fmt: skip
        sound = torch.Tensor(np.asarray(audio, np.float32)[None, :])
        ids = torch.Tensor(np.zeros((1, 11), np.int64))
        return {
            "input_ids": ids,
            "attention_mask": ids,
            "acoustic_input_mask": ids,
            "speech_tensors": sound,
            "speech_masks": ids,
        }

    def decode(self, *args: Any, **kwargs: Any) -> str:
        return "".join(chr(token) for token in args[0].tolist())

    def post_process_transcription(self, text: Any) -> list[dict[str, Any]]:
        start, end = text.find("["), text.rfind("]") + 1
        try:
            items = json.loads(text[start:end] if 0 <= start < end else text)
        except json.JSONDecodeError:
            return []
        items = items if isinstance(items, list) else [items]
        return [
            {_NAMES[name]: value for name, value in item.items() if name in _NAMES}
            for item in items
            if isinstance(item, dict)
        ]
