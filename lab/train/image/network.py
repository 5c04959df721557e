"""The networks: the generator, which denoises the 1280 numbers of a picture, and the fourfold upscaler of
pixels.

The generator is given noisy numbers, their time t (0 all noise, 1 the picture), a concept and a style, and
predicts the clean numbers. Knows no training, no text and no files.
"""

import math

import torch
from lab.train.image.latents import DIMENSIONS
from torch import Tensor, nn
from torch.nn import functional

CONCEPT = 256
STYLE = 64
_TIME = 64
_ASKED = 512
_WIDTH = 1280
_BLOCKS = 2
_COLOURS = 4


class Generator(nn.Module):
    """See the module. One row more of concepts and of styles stands for none: any concept, any style."""

    def __init__(self, concepts: int, styles: int) -> None:
        super().__init__()
        self.concepts = nn.Embedding(concepts + 1, CONCEPT)
        self.styles = nn.Embedding(styles + 1, STYLE)
        nn.init.normal_(self.concepts.weight, std=0.2)
        nn.init.normal_(self.styles.weight, std=0.2)
        self.asked = nn.Sequential(
            nn.Linear(_TIME + CONCEPT + STYLE, _ASKED), nn.SiLU(), nn.Linear(_ASKED, _ASKED), nn.SiLU()
        )
        self.recalled = nn.Linear(_ASKED, _WIDTH)
        self.enter = nn.Linear(DIMENSIONS, _WIDTH)
        self.blocks = nn.ModuleList(_Block() for _ in range(_BLOCKS))
        self.leave = nn.Sequential(nn.LayerNorm(_WIDTH), nn.Linear(_WIDTH, DIMENSIONS))

    def forward(self, noisy: Tensor, time: Tensor, concept: Tensor, style: Tensor) -> Tensor:
        """[n, 1280] from [n, 1280], times [n], and vectors of concepts [n, 256] and styles [n, 64]."""
        asked = self.asked(torch.cat([_waves(time), concept, style], 1))
        state = self.enter(noisy) + self.recalled(asked)
        for block in self.blocks:
            state = block(state, asked)
        left: Tensor = self.leave(state)
        return left


class Upscaler(nn.Module):
    """Four times the side: bilinear, and what a few convolutions add to it."""

    def __init__(self, width: int = 40, blocks: int = 4) -> None:
        super().__init__()
        self.enter = nn.Conv2d(_COLOURS, width, 5, padding=2)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1), nn.PReLU(width), nn.Conv2d(width, width, 3, padding=1)
            )
            for _ in range(blocks)
        )
        self.leave = nn.Conv2d(width, _COLOURS * 16, 3, padding=1)
        nn.init.zeros_(self.leave.weight)

    def forward(self, small: Tensor) -> Tensor:
        """[n, 4, 4h, 4w] from premultiplied RGBA [n, 4, h, w] in 0..1."""
        state = self.enter(small)
        for block in self.blocks:
            state = state + block(state)
        plain = functional.interpolate(small, scale_factor=4.0, mode="bilinear", align_corners=False)
        return plain + functional.pixel_shuffle(self.leave(state), 4)


class _Block(nn.Module):
    """Two layers beside a straight way; what is asked for scales and shifts what enters them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(_WIDTH, elementwise_affine=False)
        self.bend = nn.Linear(_ASKED, 2 * _WIDTH)
        self.first = nn.Linear(_WIDTH, _WIDTH)
        self.second = nn.Linear(_WIDTH, _WIDTH)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)

    def forward(self, state: Tensor, asked: Tensor) -> Tensor:
        scale, shift = self.bend(asked).chunk(2, 1)
        inner = self.first(self.norm(state) * (1 + scale) + shift)
        found: Tensor = state + self.second(functional.silu(inner))
        return found


def _waves(time: Tensor) -> Tensor:
    steps = torch.arange(_TIME // 2, device=time.device, dtype=torch.float32)
    angles = time[:, None] * torch.exp(steps * (math.log(100.0) / (_TIME // 2 - 1))) * math.pi
    return torch.cat([angles.sin(), angles.cos()], 1)
