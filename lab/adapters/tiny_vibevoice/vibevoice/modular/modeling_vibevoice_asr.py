"""A language model of transformers with random weights where VibeVoice-ASR would be: its words mean nothing,
but the library's own generate makes them."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

TOKENS = 40


class VibeVoiceASRForConditionalGeneration:
    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str,
        *,
        dtype: Any,
        attn_implementation: str,
        trust_remote_code: bool,
    ) -> VibeVoiceASRForConditionalGeneration:
        return cls(dtype, attn_implementation)

    def __init__(self, dtype: Any, attention: str) -> None:
        torch.manual_seed(1)
        config = Qwen2Config(
            vocab_size=64,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            attn_implementation=attention,
        )
        self._model = Qwen2ForCausalLM(config).to(dtype)

    def to(self, place: str) -> VibeVoiceASRForConditionalGeneration:
        self._model.to(place)
        return self

    def eval(self) -> VibeVoiceASRForConditionalGeneration:
        self._model.eval()
        return self

    def generate(
        self, *, speech_tensors: Any, speech_masks: Any, acoustic_input_mask: Any, **more: Any
    ) -> Any:
        # It never ends by itself, as its last token may not be chosen; a thousand tokens would take minutes.
        asked = {**more, "eos_token_id": 63, "max_new_tokens": min(TOKENS, more["max_new_tokens"])}
        return self._model.generate(**asked, suppress_tokens=[63])
