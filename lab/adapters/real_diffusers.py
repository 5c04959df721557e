"""The diffusers adapter on the real library: whole pipelines with random weights. `make adapters` runs it.

The pictures show nothing; that they come, with the size, the steps, the seed and the guidance that were asked
for, is the library's own doing and no stand-in's.
"""

import ast
import json
import os
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lab.shared import ROOT, TESTS

from engines.adapters.drawing import Drawing, pixels
from tenuto.features.image.png import read_png
from tenuto.host.host import EngineFailed, HostNotReady

PYTHON = os.environ.get("ADAPTERS_PYTHON", str(ROOT / ".venv" / "adapters" / "bin" / "python"))
SIGNATURES = TESTS / "engines" / "adapters" / "signatures.toml"
DEVICE = os.environ.get("ADAPTERS_DEVICE", "cpu")
"""`cuda` where there is a GPU."""
SMALL = f"options.dtype = 'float32'\noptions.device = '{DEVICE}'\n"

needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="no GPU: ADAPTERS_DEVICE=cuda where there is one")


@pytest.fixture(scope="session")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny Z-Image and a tiny Qwen-Image."""
    folder = tmp_path_factory.mktemp("pipelines")
    subprocess.run(
        [PYTHON, str(Path(__file__).with_name("tiny_pipelines.py")), str(folder)], check=True, timeout=300
    )
    return folder


@pytest.fixture(scope="module")
def turbo(pipelines: Path) -> Iterator[Drawing]:
    drawing = Drawing("diffusers-z-image-turbo", PYTHON, pipelines / "z-image", SMALL)
    yield drawing
    drawing.host.close()


@pytest.fixture(scope="module")
def qwen(pipelines: Path) -> Iterator[Drawing]:
    drawing = Drawing("diffusers-qwen-image", PYTHON, pipelines / "qwen-image", SMALL)
    yield drawing
    drawing.host.close()


def test_a_seed_a_prompt_and_a_guidance_make_a_picture_and_the_same_again(turbo: Drawing) -> None:
    """Any other seed, prompt or guidance makes another one (R144)."""
    first = turbo.draw(seed=2**63 - 1)
    others = [
        turbo.draw(seed=2**63 - 2),
        turbo.draw("一只鹤飞过水面", seed=2**63 - 1),
        turbo.draw(seed=2**63 - 1, guidance_scale=4),
        turbo.draw(seed=2**63 - 1, num_inference_steps=3),
    ]

    assert first.content == turbo.draw(seed=2**63 - 1).content
    assert len({first.content, *(other.content for other in others)}) == 5
    assert pixels(first).std() > 1


def test_the_guidance_of_qwen_image_guides(qwen: Drawing) -> None:
    """It is true_cfg_scale there, which does nothing without something to be guided away from."""
    unguided, guided = qwen.draw(guidance_scale=1), qwen.draw(guidance_scale=8)

    assert unguided.content != guided.content
    assert pixels(guided).std() > 1


def test_a_size_is_drawn_at_the_next_multiple_of_sixteen_and_cut_in_the_middle(turbo: Drawing) -> None:
    """Z-Image refuses others; 264 × 280 is the middle of the 272 × 288 of the same seed."""
    whole = pixels(turbo.draw(width=272, height=288))
    cut = turbo.draw(width=264, height=280)
    png = read_png(cut.content)

    assert (264, 280) == (png.width, png.height)
    assert np.array_equal(whole[4:-4, 4:-4], pixels(cut))


@needs_gpu
def test_a_gpu_draws_what_a_processor_draws(pipelines: Path, turbo: Drawing) -> None:
    """The noise of a seed is the same everywhere; what is rounded otherwise changes no pixel by more than a
    few of 255 steps."""
    processor = Drawing(
        "diffusers-z-image-turbo", PYTHON, pipelines / "z-image", SMALL.replace(DEVICE, "cpu")
    )
    try:
        drawn, expected = pixels(turbo.draw()), pixels(processor.draw())
    finally:
        processor.host.close()

    assert np.abs(drawn.astype(int) - expected).max() <= 4


@needs_gpu
@pytest.mark.parametrize("offload", ["model", "sequential"])
def test_a_pipeline_larger_than_the_gpu_is_moved_in_parts(
    pipelines: Path, turbo: Drawing, offload: str
) -> None:
    drawing = Drawing(
        "diffusers-z-image-turbo", PYTHON, pipelines / "z-image", f"{SMALL}options.offload = '{offload}'\n"
    )
    try:
        assert np.abs(pixels(drawing.draw()).astype(int) - pixels(turbo.draw())).max() <= 1
        assert np.abs(pixels(drawing.draw()).astype(int) - pixels(turbo.draw())).max() <= 1
    finally:
        drawing.host.close()


@needs_gpu
def test_the_defaults_of_the_adapter_draw_on_a_gpu(pipelines: Path) -> None:
    drawing = Drawing("diffusers-z-image-turbo", PYTHON, pipelines / "z-image")
    try:
        assert "cuda" == drawing.host.load()["device"]
        assert pixels(drawing.draw()).std() > 1
    finally:
        drawing.host.close()


@needs_gpu
def test_a_full_gpu_costs_a_try_and_no_more(turbo: Drawing) -> None:
    """Another program takes the memory, so the picture is not drawn, and may be tried again. Once there is
    room, the same process draws it."""
    expected = turbo.draw(width=1024, height=1024).content
    pid = turbo.host.pid
    program = (
        "import sys, torch\n"
        "held = []\n"
        "for size in (2**30, 2**26, 2**22):\n"
        "    try:\n"
        "        while True:\n"
        "            held.append(torch.empty(size, dtype=torch.uint8, device='cuda'))\n"
        "    except torch.OutOfMemoryError:\n"
        "        pass\n"
        "print('full', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [PYTHON, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert "full\n" == other.stdout.readline()
        with pytest.raises(EngineFailed) as caught:
            turbo.draw(width=2048, height=2048)
        other.communicate()

    assert "too little memory" in caught.value.message
    assert caught.value.transient
    assert expected == turbo.draw(width=1024, height=1024).content
    assert pid == turbo.host.pid


def test_weights_as_pickles_are_not_read(pipelines: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from diffusers import ZImagePipeline as Z;"
        "Z.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2], safe_serialization=False)"
    )
    subprocess.run(
        [PYTHON, "-c", program, str(pipelines / "z-image"), str(tmp_path)], check=True, timeout=300
    )
    drawing = Drawing("diffusers-z-image-turbo", PYTHON, tmp_path, SMALL)
    try:
        with pytest.raises(HostNotReady, match="safetensors"):
            drawing.host.load()
    finally:
        drawing.host.close()


def test_the_stand_in_takes_what_the_library_takes() -> None:
    listed = tomllib.loads(SIGNATURES.read_text("utf-8"))["function"]
    said = {one["name"]: one["takes"] for one in listed if one["stub"].startswith("diffusers/")}
    program = (
        "import inspect, json, operator, sys, diffusers;"
        "print(json.dumps({n: inspect.getsource(operator.attrgetter(n)(diffusers)) for n in sys.argv[1:]}))"
    )
    asked = subprocess.run(
        [PYTHON, "-c", program, *said], capture_output=True, check=True, text=True, timeout=120
    )

    assert said == {name: _arguments(text) for name, text in json.loads(asked.stdout).items()}


def _arguments(source: str) -> str:
    """A function's arguments in one line, without types."""
    tree = ast.parse(textwrap.dedent(source))
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    found = function.args
    for one in [*found.posonlyargs, *found.args, *found.kwonlyargs, found.vararg, found.kwarg]:
        if one is not None:
            one.annotation = None
    return ast.unparse(found)
