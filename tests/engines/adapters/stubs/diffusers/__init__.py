"""A stand-in for diffusers: pipelines that take what the real ones take and draw a ramp, step by step.

A pipeline's folder holds `model_index.json`; every call is noted in `calls.jsonl` beside it. What the real
ones do that surprises: sizes that are no multiple of 16 are refused or silently changed; a true_cfg_scale
without a negative prompt changes nothing; what a callback gives back is taken apart; a prompt is cut.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from playbook import Playbook

STEP_S = 0.02


class DiffusionPipeline:
    """Loads whichever class the folder names."""

    folder = ""
    tokenizer: Any = None

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str, **kwargs: Any) -> DiffusionPipeline:
        index = Path(pretrained_model_name_or_path) / "model_index.json"
        if not index.exists():
            raise OSError(f"no file named model_index.json found in directory {index.parent}")
        made: DiffusionPipeline = globals()[json.loads(index.read_text())["_class_name"]]()
        made.folder = pretrained_model_name_or_path
        made.tokenizer = lambda prompt: {"input_ids": prompt.split()}
        Playbook(made.folder).note("from_pretrained", **kwargs)
        return made

    def to(self, place: str) -> DiffusionPipeline:
        Playbook(self.folder).note("to", place=place)
        return self

    def enable_model_cpu_offload(self, gpu_id: int | None = None, device: str | None = None) -> None:
        Playbook(self.folder).note("enable_model_cpu_offload", device=device)

    def maybe_free_model_hooks(self) -> None:
        Playbook(self.folder).note("maybe_free_model_hooks")

    def set_progress_bar_config(self, **kwargs: Any) -> None:
        assert kwargs == {"disable": True}

    def _draw(
        self,
        prompt: str,
        size: tuple[int, int],
        steps: int,
        guidance: float,
        *,
        generator: Any,
        callback: Callable[..., dict[str, Any]],
        output_type: str,
    ) -> Any:
        width, height = size
        if width % 16 or height % 16:
            raise ValueError(f"Height must be divisible by 16 (got {height}).")
        if "[oom]" in prompt:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        said = {"prompt": prompt, "width": width, "height": height, "steps": steps, "guidance": guidance}
        Playbook(self.folder).note("draw", seed=generator.seed, output_type=output_type, **said)
        for step in range(steps):
            time.sleep(STEP_S)
            callback(self, step, 1000 - step, {"latents": None}).pop("latents", None)
        self.maybe_free_model_hooks()
        pixels = np.empty((1, height, width, 3), np.float32)
        pixels[..., 0] = np.linspace(0, 1, width)
        pixels[..., 1] = np.linspace(0, 1, height)[:, None]
        pixels[..., 2] = np.nan if "[nan]" in prompt else 1.5
        return SimpleNamespace(images=pixels)


class ZImagePipeline(DiffusionPipeline):
    """Guided by guidance_scale, which Turbo does without."""

    def __call__(  # noqa: PLR0917 (as it stands there)
        self,
        prompt: Any = None,
        height: Any = None,
        width: Any = None,
        num_inference_steps: Any = 50,
        sigmas: Any = None,
        guidance_scale: Any = 5.0,
        cfg_normalization: Any = False,
        cfg_truncation: Any = 1.0,
        negative_prompt: Any = None,
        num_images_per_prompt: Any = 1,
        generator: Any = None,
        latents: Any = None,
        prompt_embeds: Any = None,
        negative_prompt_embeds: Any = None,
        output_type: Any = "pil",
        return_dict: Any = True,
        joint_attention_kwargs: Any = None,
        callback_on_step_end: Any = None,
        callback_on_step_end_tensor_inputs: Any = ["latents"],  # noqa: B006 (as it stands there)
        max_sequence_length: Any = 512,
    ) -> Any:
        way = {"generator": generator, "callback": callback_on_step_end, "output_type": output_type}
        return self._draw(prompt, (width, height), num_inference_steps, guidance_scale, **way)


class QwenImagePipeline(DiffusionPipeline):
    """Guided by true_cfg_scale; its guidance_scale is for models that were distilled, and None."""

    def __call__(  # noqa: PLR0917 (as it stands there)
        self,
        prompt: Any = None,
        negative_prompt: Any = None,
        true_cfg_scale: Any = 4.0,
        height: Any = None,
        width: Any = None,
        num_inference_steps: Any = 50,
        sigmas: Any = None,
        guidance_scale: Any = None,
        num_images_per_prompt: Any = 1,
        generator: Any = None,
        latents: Any = None,
        prompt_embeds: Any = None,
        prompt_embeds_mask: Any = None,
        negative_prompt_embeds: Any = None,
        negative_prompt_embeds_mask: Any = None,
        output_type: Any = "pil",
        return_dict: Any = True,
        attention_kwargs: Any = None,
        callback_on_step_end: Any = None,
        callback_on_step_end_tensor_inputs: Any = ["latents"],  # noqa: B006 (as it stands there)
        max_sequence_length: Any = 512,
    ) -> Any:
        guidance = true_cfg_scale if negative_prompt is not None and true_cfg_scale > 1 else 1
        way = {"generator": generator, "callback": callback_on_step_end, "output_type": output_type}
        return self._draw(prompt, (width, height), num_inference_steps, guidance, **way)


class OldPipeline(DiffusionPipeline):
    """As some were written before callbacks: it could not be stopped."""

    def __call__(
        self,
        prompt: Any = None,
        height: Any = None,
        width: Any = None,
        num_inference_steps: int = 50,
    ) -> Any:
        raise NotImplementedError
