"""A stand-in for qwen-asr 0.0.6. Of its traps: languages by their English names alone, no times without the
aligner, texts ended at `max_new_tokens` without a word of it, and aligned items without the text's marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import playbook

SUPPORTED = (
    "Chinese",
    "English",
    "Cantonese",
    "Arabic",
    "Spanish",
    "Japanese",
    "German",
    "French",
    "Italian",
)


@dataclass
class ASRTranscription:
    language: str
    text: str
    time_stamps: Any = None


@dataclass(frozen=True)
class ForcedAlignItem:
    text: str
    start_time: float
    end_time: float


class Qwen3ASRModel:
    def __init__(self, folder: str, aligner: str | None, max_new_tokens: int | None) -> None:
        self._playbook = playbook.Playbook(folder)
        self._aligner, self._most = aligner, max_new_tokens

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: Any, forced_aligner: Any = None,
        forced_aligner_kwargs: Any = None, max_inference_batch_size: Any = 32, max_new_tokens: Any = 512,
        **kwargs: Any,
    ) -> Qwen3ASRModel:  # fmt: skip
        assert set(kwargs) <= {"dtype", "device_map", "attn_implementation"}, kwargs
        return cls(pretrained_model_name_or_path, forced_aligner, max_new_tokens)

    def transcribe(
        self, audio: Any, context: Any = "", language: Any = None, return_time_stamps: Any = False
    ) -> list[ASRTranscription]:
        samples, rate = audio
        assert isinstance(samples, np.ndarray)
        if return_time_stamps and self._aligner is None:
            raise ValueError("return_time_stamps=True requires `forced_aligner` to be provided")
        if language is not None and language not in SUPPORTED:
            raise ValueError(f"Unsupported language: {language}. Supported: {SUPPORTED}")
        self._playbook.note(
            "transcribe", seconds=len(samples) / rate, language=language, aligned=return_time_stamps
        )
        answer = self._playbook.next()
        detected = "English"
        if isinstance(answer, dict):
            detected, answer = answer["language"], answer["text"]
        said, items = answer if isinstance(answer, list) else (answer, [])
        text = said[: self._most]
        times = [ForcedAlignItem(*item) for item in items] if return_time_stamps else None
        return [ASRTranscription(language or detected, text, times)]
