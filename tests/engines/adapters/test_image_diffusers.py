"""The diffusers adapter: what reaches a pipeline, and what becomes of it. The real one: `make adapters`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from engines.adapters.drawing import Drawing, pixels
from tenuto.host.host import Cancelled, EngineFailed, HostNotReady

Draw = Callable[..., Drawing]


@pytest.fixture
def draw(interpreter: str, tmp_path: Path) -> Iterator[Draw]:
    """Gives a function that gives a pipeline of this class behind this adapter."""
    made: list[Drawing] = []

    def draw(adapter: str, pipeline: str, more: str = "") -> Drawing:
        folder = tmp_path / pipeline
        folder.mkdir(exist_ok=True)
        (folder / "model_index.json").write_text(json.dumps({"_class_name": pipeline}))
        made.append(Drawing(adapter, interpreter, folder, more))
        return made[-1]

    yield draw
    for drawing in made:
        drawing.host.close()


def test_a_model_draws_with_its_own_defaults_and_its_own_guidance(draw: Draw) -> None:
    """Z-Image-Turbo without guidance in nine steps, Qwen-Image by true_cfg_scale, which needs something to be
    guided away from; every seed of the contract (R143)."""
    turbo = draw("diffusers-z-image-turbo", "ZImagePipeline")
    qwen = draw("diffusers-qwen-image", "QwenImagePipeline")
    turbo.draw(num_inference_steps=9, seed=2**63 - 1)
    qwen.draw(guidance_scale=3)
    [drawn], [guided] = turbo.calls("draw"), qwen.calls("draw")
    loaded = {"torch_dtype": "bfloat16", "local_files_only": True, "use_safetensors": True}

    assert {
        "width": 1024,
        "height": 1024,
        "num_inference_steps": 9,
        "guidance_scale": 0,
    } == turbo.entry.defaults
    assert (9, 0.0, 2**63 - 1, "np") == tuple(
        drawn[name] for name in ("steps", "guidance", "seed", "output_type")
    )
    assert 3.0 == guided["guidance"]
    assert [{"call": "from_pretrained", **loaded}] == turbo.calls("from_pretrained")


def test_a_size_is_drawn_at_the_next_multiple_of_sixteen_and_cut_in_the_middle(draw: Draw) -> None:
    """What the pipeline would refuse or change is never asked of it; nothing is scaled."""
    drawing = draw("diffusers-z-image-turbo", "ZImagePipeline")
    whole = pixels(drawing.draw(width=272, height=512))
    cut = pixels(drawing.draw(width=264, height=504))

    assert [(272, 512)] * 2 == [(call["width"], call["height"]) for call in drawing.calls("draw")]
    assert (504, 264, 3) == cut.shape
    assert np.array_equal(whole[4:-4, 4:-4], cut)
    assert 255 == cut[..., 2].min()


def test_a_prompt_that_the_model_cannot_read_whole_is_told(draw: Draw) -> None:
    drawing = draw("diffusers-z-image-turbo", "ZImagePipeline")

    assert [] == drawing.draw("crane " * 512).metadata["warnings"]
    assert ["The prompt has 513 tokens; the model reads 512."] == drawing.draw("crane " * 513).metadata[
        "warnings"
    ]


@pytest.mark.parametrize(
    ("prompt", "says", "transient"),
    [("[oom]", "the GPU has too little memory for 256 × 256", True), ("[nan]", "pixels that are NaN", False)],
)
def test_what_goes_wrong_is_a_failure_and_the_process_stays(
    draw: Draw, prompt: str, says: str, transient: bool
) -> None:
    drawing = draw("diffusers-z-image-turbo", "ZImagePipeline")
    with pytest.raises(EngineFailed, match=says) as caught:
        drawing.draw(prompt)

    assert transient == caught.value.transient
    assert drawing.host.alive


@pytest.mark.parametrize(
    ("adapter", "pipeline", "more", "says"),
    [
        ("diffusers-qwen-image", "ZImagePipeline", "", "no true_cfg_scale"),
        ("diffusers", "OldPipeline", "", "no generator, callback_on_step_end, output_type"),
        ("diffusers", "ZImagePipeline", 'options.offload = "some"', "offload is not one of none, model"),
    ],
)
def test_a_pipeline_that_does_not_fit_is_not_loaded(
    draw: Draw, adapter: str, pipeline: str, more: str, says: str
) -> None:
    with pytest.raises(HostNotReady, match=says):
        draw(adapter, pipeline, more).host.load()


@pytest.mark.parametrize("prompt", ["[oom]", "[cancelled]"])
def test_no_part_of_an_offloaded_model_stays_on_the_gpu_after_a_failure(draw: Draw, prompt: str) -> None:
    """A pipeline frees it only at the end of a call; the next one would find too little memory."""
    drawing = draw("diffusers", "ZImagePipeline", 'options.offload = "model"\noptions.device = "cuda:1"')
    with pytest.raises((Cancelled, EngineFailed)):
        drawing.draw(prompt, num_inference_steps=100, on_step=drawing.cancel)

    assert 1 == len(drawing.calls("maybe_free_model_hooks"))
