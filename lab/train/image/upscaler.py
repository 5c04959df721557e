"""Step 6: trains the upscaler on what the components make of real art at 64 pixels, against the vectors at
256.

`python -m lab.train.image.upscaler --minutes 10` writes upscaler.pt and goes on where it stopped. A part of
what it sees is blurred or noisy, as a generator's pictures may be.
"""

import argparse
import json
import math
import time

import numpy as np
import torch
from lab.train.image import art, latents
from lab.train.image.concepts import concepts
from lab.train.image.network import Generator, Upscaler
from lab.train.image.places import work
from torch import Tensor
from torch.nn import functional

_LARGE = 256
_CONCEPTS = 160
_HELD_OUT = 48
_STEPS, _BATCH, _CROP, _RATE = 1000, 16, 32, 2e-3


def main() -> None:
    parser = argparse.ArgumentParser(prog="lab.train.image.upscaler")
    parser.add_argument("--minutes", type=float, default=10)
    minutes = parser.parse_args().minutes
    torch.manual_seed(1)
    torch.set_num_threads(2)
    small, large = _pairs()
    order = torch.randperm(len(small), generator=torch.Generator().manual_seed(1))
    small, large = small[order], large[order]
    net, path = Upscaler(), work("upscaler.pt")
    optimiser = torch.optim.AdamW(net.parameters(), _RATE, betas=(0.9, 0.98))
    step = 0
    if path.exists():
        state = torch.load(path, weights_only=True)
        net.load_state_dict(state["network"])
        optimiser.load_state_dict(state["optimiser"])
        step = state["step"]
    began = time.monotonic()
    while step < _STEPS and time.monotonic() - began < minutes * 60:
        loss = _learn(net, optimiser, step, small[_HELD_OUT:], large[_HELD_OUT:])
        step += 1
        if step % 100 == 0 or step == _STEPS:
            print(
                json.dumps(
                    {"step": step, "loss": round(loss, 4)}
                    | _figures(net, small[:_HELD_OUT], large[:_HELD_OUT])
                ),
                flush=True,
            )
            torch.save({"network": net.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, path)
    torch.save({"network": net.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, path)


def _pairs() -> tuple[Tensor, Tensor]:
    """What the generator makes of concepts [n, 4, 64, 64], and the vectors drawn large, both as bytes.

    Every other picture is what the components make of the art itself: another training ends elsewhere.
    """
    kept = latents.load()
    chosen = np.random.default_rng(1).choice(len(concepts()), _CONCEPTS, replace=False)
    places = np.flatnonzero(np.isin(kept["concepts"], chosen))
    numbers = kept["numbers"][places].astype(np.float32)
    numbers[::2] = _generated(kept["concepts"][places], kept["styles"][places])[::2]
    small = latents.unflat((numbers * kept["scale"] @ kept["components"] + kept["mean"]).astype(np.float32))
    drawings = [art.vectors(style) for style in art.GENERATOR_STYLES]
    codes = [concepts()[number].code for number in kept["concepts"][places]]
    large = [
        art.drawn(drawings[style][code], _LARGE)
        for style, code in zip(kept["styles"][places], codes, strict=True)
    ]
    rows = (small * 255).round().astype(np.uint8)
    return torch.tensor(rows).permute(0, 3, 1, 2), torch.tensor(np.stack(large)).permute(0, 3, 1, 2)


@torch.no_grad()
def _generated(owners: np.ndarray, styles: np.ndarray) -> np.ndarray:
    """The numbers of each concept in its style, as the generator stands now, in ten steps from noise."""
    network = Generator(len(concepts()), len(art.GENERATOR_STYLES))
    state = torch.load(work("runs", "pictograms.pt"), map_location="cpu", weights_only=True)
    network.load_state_dict(state["average"])
    concept, style = network.concepts(torch.tensor(owners)), network.styles(torch.tensor(styles))
    found = torch.randn(len(owners), latents.DIMENSIONS)
    for step in range(10):
        clean = network(found, torch.full((len(owners),), step / 10), concept, style)
        found = found + (clean - found) / (10 - step)
    return found.numpy()


def _learn(net: Upscaler, optimiser: torch.optim.Optimizer, step: int, small: Tensor, large: Tensor) -> float:
    for group in optimiser.param_groups:
        group["lr"] = _RATE * min(1, (step + 1) / 50) * (0.5 * (1 + math.cos(math.pi * step / _STEPS)) + 0.01)
    seen, wanted = _crops(small, large)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = net(seen)
    found = found.float()
    slopes = functional.l1_loss(found.diff(dim=-1), wanted.diff(dim=-1))
    slopes = slopes + functional.l1_loss(found.diff(dim=-2), wanted.diff(dim=-2))
    loss = functional.l1_loss(found, wanted) + 0.5 * slopes
    optimiser.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimiser.step()
    return loss.item()


def _crops(small: Tensor, large: Tensor) -> tuple[Tensor, Tensor]:
    chosen = torch.randint(0, len(small), (_BATCH,))
    top, left = (int(at) for at in torch.randint(0, latents.SIDE - _CROP + 1, (2,)))
    seen = small[chosen, :, top : top + _CROP, left : left + _CROP].float() / 255
    end, right = 4 * (top + _CROP), 4 * (left + _CROP)
    wanted = large[chosen, :, 4 * top : end, 4 * left : right].float() / 255
    # Half of what is seen is exact: other art, and a second fourfold step, have no error of the components.
    exact = functional.avg_pool2d(wanted, 4)
    seen = torch.where(torch.rand(_BATCH, 1, 1, 1) < 0.5, seen, exact)
    soft = functional.avg_pool2d(functional.pad(seen, (1, 1, 1, 1), mode="replicate"), 3, 1)
    seen = torch.where(torch.rand(_BATCH, 1, 1, 1) < 0.2, 0.5 * seen + 0.5 * soft, seen)
    seen = seen + torch.randn_like(seen) * 0.05 * torch.rand(_BATCH, 1, 1, 1)
    return seen.clamp(0, 1), wanted


@torch.no_grad()
def _figures(net: Upscaler, small: Tensor, large: Tensor) -> dict[str, float]:
    """Decibels against the vectors, of pictures that were never learnt from."""
    seen, wanted = small.float() / 255, large.float() / 255
    cubic = functional.interpolate(seen, scale_factor=4.0, mode="bicubic", align_corners=False).clamp(0, 1)
    ours = torch.cat([net(seen[at : at + 8]) for at in range(0, len(seen), 8)]).clamp(0, 1)
    return {
        "bicubic_db": round(_decibels(cubic, wanted), 2),
        "upscaler_db": round(_decibels(ours, wanted), 2),
    }


def _decibels(found: Tensor, wanted: Tensor) -> float:
    return -10 * math.log10((found - wanted).pow(2).mean().item())


if __name__ == "__main__":
    main()
