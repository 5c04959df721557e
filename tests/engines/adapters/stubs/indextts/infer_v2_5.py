"""As index-tts/index-tts has it: what is asked and what comes of it, with a tone where the model would speak.

Its traps are here, too: importing it moves the hub's cache; a voice is remembered by its file's name;
references are cut at 15 seconds, and keep what they were made of while somebody might train; with
`stream_return` a silence follows every segment, the last one too, and for a silence of 0 it is the list of
all segments so far; what is drawn is drawn whatever `do_sample` says; emotions from texts need the model
for them; a segment of more than 1,500 sounds is broken off with a warning; its first releases speak any
text in one segment (a file `first_release` in the model's folder makes it one).
"""
# ruff: noqa: PLR0917 (its arguments and the order of its lines are the package's)

from __future__ import annotations

import hashlib
import os
import random
import warnings
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_CACHE"] = "./checkpoints/hf_cache"

import numpy as np
import playbook
import torch
from huggingface_hub import constants

warnings.filterwarnings("ignore", category=FutureWarning)
warnings.filterwarnings("ignore", category=UserWarning)

RATE = 22050
BIAS = [0.9375, 0.875, 1.0, 1.0, 0.9375, 0.9375, 0.6875, 0.5625]
SOUNDS_PER_TOKEN = 10


class IndexTTS2:
    def __init__(
        self, cfg_path: Any = "checkpoints/config.yaml", model_dir: Any = "checkpoints",
        use_bf16: Any = False, device: Any = None, use_cuda_kernel: Any = None,
        use_deepspeed: Any = False, use_accel: Any = False, use_torch_compile: Any = False,
        use_qwen_emo: Any = False,
    ) -> None:  # fmt: skip
        self.qwen_emo = object() if use_qwen_emo else None
        self.gr_progress: Any = None
        self.tokenizer = _Tokenizer()
        self._is_first_release = (Path(model_dir) / "first_release").exists()
        self.cache_spk_audio_prompt: Any = None
        self.cache_spk_cond: Any = None
        self._playbook = playbook.Playbook(model_dir)
        self._playbook.note(
            "load", use_bf16=use_bf16, variable=os.environ.get("HF_HUB_CACHE"), read=constants.HF_HUB_CACHE
        )

    def normalize_emo_vec(self, emo_vector: Any, apply_bias: Any = True) -> Any:
        if apply_bias:
            emo_vector = [share * bias for share, bias in zip(emo_vector, BIAS, strict=True)]
        total = sum(emo_vector)
        return [share * 0.8 / total for share in emo_vector] if total > 0.8 else emo_vector

    @property
    def split_text_by_tokens(self) -> Any:
        if self._is_first_release:
            raise AttributeError("split_text_by_tokens")
        return lambda text, limit: [text[start : start + limit] for start in range(0, len(text), limit)]

    def infer(
        self, spk_audio_prompt: Any, text: Any, output_path: Any, lang: Any, emo_audio_prompt: Any = None,
        emo_alpha: Any = 1.0, emo_vector: Any = None, use_emo_text: Any = False, emo_text: Any = None,
        use_random: Any = False, interval_silence: Any = 200, verbose: Any = False,
        max_text_tokens_per_segment: Any = 120, stream_return: Any = False, more_segment_before: Any = 0,
        duration_factor: Any = 1.0, text_normalization: Any = True, seed: Any = None,
        diffusion_steps: Any = 25, inference_cfg_rate: Any = 0.7, cfm_temperature: Any = 1.0,
        **generation_kwargs: Any,
    ) -> Any:  # fmt: skip
        asked = {name: value for name, value in locals().items() if name not in ("self", "generation_kwargs")}
        self._playbook.note("infer", **asked, **generation_kwargs)
        made = self._made(asked, generation_kwargs)
        return made if stream_return else (RATE, np.concatenate([one.numpy() for one in made], axis=1))

    def _made(self, asked: dict[str, Any], generation: dict[str, Any]) -> Iterator[Any]:
        answer = self._playbook.next()
        if asked["use_emo_text"] and self.qwen_emo is None:
            raise RuntimeError("use_emo_text=True requires QwenEmotion, but it was not loaded at init")
        if self.cache_spk_cond is None or self.cache_spk_audio_prompt != asked["spk_audio_prompt"]:
            self.cache_spk_audio_prompt = asked["spk_audio_prompt"]
            self.cache_spk_cond = _voice(asked["spk_audio_prompt"])
            self._playbook.note("voice", keeps_graph=torch.is_grad_enabled())
        greedy = generation["top_k"] == 1 and generation.get("num_beams", 3) == 1
        texts = [asked["text"]]
        if not self._is_first_release:
            texts = self.split_text_by_tokens(asked["text"], asked["max_text_tokens_per_segment"])
        wavs: list[Any] = []
        for index, text in enumerate(texts):
            if self.gr_progress is not None:
                self.gr_progress(0.2 + 0.7 * index / len(texts), desc="speech synthesis")
            count = min(len(text), generation.get("max_mel_tokens", 1500) // SOUNDS_PER_TOKEN)
            if count < len(text):
                warnings.warn("generation stopped due to exceeding `max_mel_tokens`", RuntimeWarning, 2)
            pitch = self.cache_spk_cond + (0 if greedy else random.random())
            samples = _tone(pitch, count * asked["duration_factor"])
            if answer == "nan":
                samples[0, 5] = np.nan
            wavs.append(torch.Tensor(samples))
            if asked["stream_return"]:
                yield torch.Tensor(samples)
                silence = asked["interval_silence"]
                yield (
                    wavs if silence <= 0 else torch.Tensor(np.zeros((1, RATE * silence // 1000), np.float32))
                )
        if not asked["stream_return"]:
            yield torch.Tensor(np.concatenate([one.numpy() for one in wavs], axis=1))


class _Tokenizer:
    def encode(self, text: str, allowed_special: Any = ()) -> list[int]:
        """A token for each sign, but for those of a special token that is allowed."""
        return [ord(sign) for sign in text]


def _voice(path: str) -> int:
    """What the model makes of a recording: a pitch, told by its first 15 seconds."""
    with wave.open(str(Path(path))) as file:
        heard = file.readframes(min(file.getnframes(), 15 * file.getframerate()))
    return 200 + int.from_bytes(hashlib.blake2b(heard, digest_size=2).digest(), "big") % 800


def _tone(pitch: float, tokens: float) -> Any:
    times = np.arange(int(RATE * tokens / 50), dtype=np.float32) / RATE
    # Numbers of 16-bit sound that are no 16-bit numbers, as the model gives them.
    return np.clip(32767 * 0.4 * np.sin(2 * np.pi * pitch * times), -32767.0, 32767.0)[None, :].astype(
        np.float32
    )
