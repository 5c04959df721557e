"""Tensors of a prompt, and one answer whatever was generated."""

from __future__ import annotations

import json
from typing import Any

import torch

ANSWER = '[{"Start": 0, "End": 2, "Speaker": 0, "Content": "Real tokens, made up words."}]'


class VibeVoiceASRProcessor:
    pad_id = 0

    def __init__(self) -> None:
        self.tokenizer = type("Tokenizer", (), {"eos_token_id": 1})()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str, **kwargs: Any) -> VibeVoiceASRProcessor:
        return cls()

    def __call__(self, audio: Any, return_tensors: str, add_generation_prompt: bool) -> dict[str, Any]:
        ids = torch.ones((1, 5), dtype=torch.long)
        return {
            "input_ids": ids,
            "attention_mask": ids,
            "acoustic_input_mask": ids.bool(),
            "speech_tensors": torch.tensor(audio)[None, :],
            "speech_masks": ids.bool(),
        }

    def decode(self, ids: Any, skip_special_tokens: bool) -> str:
        assert all(isinstance(token, int) for token in ids.tolist())
        return ANSWER

    def post_process_transcription(self, text: str) -> list[dict[str, Any]]:
        names = {"Start": "start_time", "End": "end_time", "Speaker": "speaker_id", "Content": "text"}
        return [{names[name]: value for name, value in item.items()} for item in json.loads(text)]
