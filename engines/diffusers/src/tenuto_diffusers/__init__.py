"""Images by any text-to-image pipeline of diffusers, on a GPU: Z-Image, Qwen-Image, FLUX, SDXL and the like.

What models differ in stands in the manifests: defaults, what their guidance is called, how much of a prompt
they read. Sizes are drawn at the next multiple of 16 and cut in the middle. Knows no jobs.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenuto_engine import EngineError, Result, Run
from tenuto_engine_kit import picture

STEP = picture.STEP
GUIDANCES = ("guidance_scale", "true_cfg_scale", "none")
OFFLOADS = ("none", "model", "sequential")
NEEDED = (
    "prompt",
    "width",
    "height",
    "num_inference_steps",
    "generator",
    "callback_on_step_end",
    "output_type",
)
NOTHING = " "
"""The negative prompt. Without one, Qwen-Image ignores true_cfg_scale."""


class DiffusersEngine:
    """A loaded pipeline; takes one run at a time."""

    def __init__(self, options: dict[str, Any]) -> None:
        import torch
        from diffusers import DiffusionPipeline

        for name, allowed in (("guidance", GUIDANCES), ("offload", OFFLOADS)):
            if options[name] not in allowed:
                raise EngineError("engine_failed", f"the option {name} is not one of {', '.join(allowed)}")
        self._torch = torch
        self._options = options
        self._about = {"model_id": options["model"], "model_revision": options["model_revision"]}
        self._device = options["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
        # Only local safetensors: nothing is downloaded, no pickle is loaded, no code of a model is run.
        self._pipeline = DiffusionPipeline.from_pretrained(
            str(Path(options["path"]).expanduser()),
            torch_dtype=getattr(torch, options["dtype"]),
            local_files_only=True,
            use_safetensors=True,
        )
        self._takes = frozenset(inspect.signature(self._pipeline.__call__).parameters)
        self._check_pipeline()
        self._place()
        self._pipeline.set_progress_bar_config(disable=True)
        self.info = {**self._about, "pipeline": type(self._pipeline).__name__, "device": self._device}

    def run(self, run: Run) -> Result:
        """`prompt`, `width`, `height`, `num_inference_steps`, `guidance_scale` and `seed` are all present."""
        width, height = int(run.parameters["width"]), int(run.parameters["height"])
        told = self._doubts(str(run.parameters["prompt"]))
        run.check_cancelled()
        try:
            drawn = _picture(self._call(run))
        except self._torch.OutOfMemoryError as error:
            self._torch.cuda.empty_cache()
            message = f"the GPU has too little memory for {width} × {height} pixels"
            raise EngineError("engine_failed", message, transient=True) from error
        content = picture.png(picture.fitted(drawn, width, height))
        return Result("image/png", content, {**self._about, "warnings": told})

    def _call(self, run: Run) -> Any:
        """The pipeline's pictures. With offload = "model", no part of it is left on the GPU."""
        try:
            with warnings.catch_warnings(), self._torch.inference_mode():
                warnings.simplefilter("ignore")
                return self._pipeline(**self._asked(run)).images
        except BaseException:
            # Only a call that ends well does this by itself.
            self._pipeline.maybe_free_model_hooks()
            raise

    def _check_pipeline(self) -> None:
        lacking = [name for name in NEEDED if name not in self._takes]
        guidance = self._options["guidance"]
        lacking += [guidance] if guidance not in ("none", *self._takes) else []
        if lacking:
            name = type(self._pipeline).__name__
            raise EngineError(
                "engine_failed", f"{name} is not a text-to-image pipeline: no {', '.join(lacking)}"
            )

    def _place(self) -> None:
        if self._options["offload"] == "model":
            self._pipeline.enable_model_cpu_offload(device=self._device)
        elif self._options["offload"] == "sequential":
            self._pipeline.enable_sequential_cpu_offload(device=self._device)
        else:
            self._pipeline.to(self._device)

    def _asked(self, run: Run) -> dict[str, Any]:
        """The arguments of the pipeline's call."""
        parameters = run.parameters
        asked: dict[str, Any] = {
            "prompt": str(parameters["prompt"]),
            "width": -(-int(parameters["width"]) // STEP) * STEP,
            "height": -(-int(parameters["height"]) // STEP) * STEP,
            "num_inference_steps": int(parameters["num_inference_steps"]),
            # On the CPU, so that a seed gives the same result on every GPU.
            "generator": self._torch.Generator("cpu").manual_seed(int(parameters["seed"])),
            "callback_on_step_end": _followed(run, int(parameters["num_inference_steps"])),
            "output_type": "np",
        }
        if (guidance := self._options["guidance"]) != "none":
            asked[guidance] = float(parameters["guidance_scale"])
            if guidance == "true_cfg_scale":
                asked["negative_prompt"] = NOTHING
        if "max_sequence_length" in self._takes and self._options["max_sequence_length"]:
            asked["max_sequence_length"] = int(self._options["max_sequence_length"])
        return asked

    def _doubts(self, prompt: str) -> list[str]:
        """A warning if the prompt is too long: the pipeline cuts it silently."""
        most = int(self._options["max_sequence_length"])
        tokenizer = getattr(self._pipeline, "tokenizer_2", None) or getattr(self._pipeline, "tokenizer", None)
        if not most or tokenizer is None:
            return []
        count = len(tokenizer(prompt)["input_ids"])
        return [f"The prompt has {count} tokens; the model reads {most}."] if count > most else []


def _followed(run: Run, steps: int) -> Callable[..., dict[str, Any]]:
    """Called by the pipeline after each step: reports progress, and cancels by raising."""

    def on_step_end(_: Any, step: int, __: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        run.check_cancelled()
        # Some schedulers take more steps than requested.
        run.progress("drawing", min(step + 1, steps), steps, "steps")
        return tensors

    return on_step_end


def _picture(made: Any) -> Any:
    """The first picture, from an array of 0..1. Raises if it contains NaN, which an overflow causes."""
    import numpy as np
    from PIL import Image

    pixels = np.asarray(made[0])
    if pixels.ndim != 3 or pixels.shape[-1] != 3:
        raise EngineError(
            "engine_failed", f"the pipeline gave an array of {pixels.shape}, which is not a picture"
        )
    if not np.isfinite(pixels).all():
        raise EngineError("engine_failed", "the model gave pixels that are NaN; try another dtype")
    return Image.fromarray((pixels.clip(0, 1) * 255).round().astype("uint8"))
