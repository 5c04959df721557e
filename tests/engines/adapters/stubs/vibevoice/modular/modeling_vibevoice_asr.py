"""As microsoft/VibeVoice has it: transformers' generate, token by token, to the end or to the limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import playbook
import torch


class VibeVoiceASRForConditionalGeneration:
    def __init__(self, folder: str) -> None:
        self._playbook = playbook.Playbook(folder)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, *, dtype: Any = None, attn_implementation: Any = None,
        trust_remote_code: bool = False,
    ) -> VibeVoiceASRForConditionalGeneration:  # fmt: skip
        return cls(pretrained_model_name_or_path)

    def to(self, place: str) -> VibeVoiceASRForConditionalGeneration:
        return self

    def eval(self) -> VibeVoiceASRForConditionalGeneration:
        return self

    def generate(
        self, *, input_ids: Any, attention_mask: Any, acoustic_input_mask: Any, speech_tensors: Any,
        speech_masks: Any, max_new_tokens: int, num_beams: int, pad_token_id: int, eos_token_id: int,
        streamer: Any = None, do_sample: bool = False, temperature: Any = None, top_p: Any = None,
    ) -> Any:  # fmt: skip
        assert not (streamer is not None and num_beams > 1), "a streamer does not follow beams"
        self._playbook.note(
            "generate", samples=speech_tensors.shape[1], do_sample=do_sample, max_new_tokens=max_new_tokens
        )
        tokens = [ord(sign) for sign in self._playbook.next()][:max_new_tokens]
        streamer.put(input_ids)
        for token in tokens:
            streamer.put(torch.Tensor([token]))
        streamer.end()
        return torch.Tensor(np.concatenate([input_ids.numpy(), np.array([tokens], np.int64)], axis=1))
