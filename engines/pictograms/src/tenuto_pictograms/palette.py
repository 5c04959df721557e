"""Gives a drawn thing another colour and leaves its shading, its outlines and its eyes as they are.

Works on premultiplied RGBA in 0..1, in Oklab (https://bottosson.github.io/posts/oklab/). The colour goes to
what the thing is mostly made of: the strongest hue first, then others, until enough of it has the colour.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

SRGB = {
    "red": (222, 38, 44), "orange": (245, 140, 10), "yellow": (255, 208, 40), "green": (62, 163, 60),
    "blue": (38, 108, 222), "purple": (138, 66, 190), "pink": (247, 140, 184), "brown": (130, 80, 46),
    "black": (42, 42, 46), "white": (250, 250, 250), "grey": (142, 146, 152), "gold": (224, 172, 40),
}  # fmt: skip
NEUTRAL = ("black", "white", "grey")

_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    np.float32,
)
_AXES = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ],
    np.float32,
)
_ENOUGH = 0.5
"""The share of a thing that gets the colour at least."""
_OUTLINE = 0.3
"""Darker than this and without a hue is outline, eye or wheel, as long as there is something else."""
_MOSTLY_DARK = 0.3
"""The share of a thing from which on what is dark is no outline but what it is made of."""
_NO_HUE = 0.045
_BINS = 24
_REACH = 2
"""Bins of 15° on each side of a hue that are the same material, lit otherwise."""
_SOFT = 3
"""Pixels on each side over which a material is softened, in a picture of 256."""


def recoloured(picture: Floats, colour: str) -> Floats:
    """The picture [h, w, 4] in a colour of SRGB."""
    alpha = picture[..., 3]
    solid = alpha > 0.02
    plain = np.where(solid[..., None], picture[..., :3] / np.maximum(alpha, 0.02)[..., None], 0).clip(0, 1)
    lab = to_oklab(plain)
    weight = alpha * solid
    # Noise in a pale part is of any hue; its neighbourhood is of one.
    material = _material(_smoothed(lab), weight)
    target = to_oklab(np.array([[SRGB[colour]]], np.float32) / np.float32(255))[0, 0]
    share = _softened(material, lab, weight)[..., None]
    rgb = from_oklab(lab + share * (_tinted(lab, material, target, colour) - lab))
    return np.concatenate([rgb * alpha[..., None], alpha[..., None]], -1).astype(np.float32)


def to_oklab(rgb: Floats) -> Floats:
    """[..., 3] of sRGB in 0..1."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    found: Floats = (np.cbrt(linear @ _CONES.T) @ _AXES.T).astype(np.float32)
    return found


def from_oklab(lab: Floats) -> Floats:
    """sRGB in 0..1; what is outside is clipped."""
    linear = (lab @ np.linalg.inv(_AXES).T.astype(np.float32)) ** 3 @ np.linalg.inv(_CONES).T.astype(
        np.float32
    )
    linear = linear.clip(0, 1)
    rgb = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return rgb.astype(np.float32)


def _material(lab: Floats, weight: Floats) -> npt.NDArray[np.bool_]:
    """Where the thing is of what it is mostly made of."""
    light, chroma = lab[..., 0], np.hypot(lab[..., 1], lab[..., 2])
    hued = (chroma > _NO_HUE) & (weight > 0)
    bins = (np.degrees(np.arctan2(lab[..., 2], lab[..., 1])) % 360 / 360 * _BINS).astype(int) % _BINS
    groups = []
    left = hued.copy()
    while (weight * left).sum() > 0.02 * weight.sum():
        counts = np.bincount(bins[left], (weight * chroma)[left], _BINS)
        middle = int(np.argmax(counts))
        near = np.minimum((bins - middle) % _BINS, (middle - bins) % _BINS) <= _REACH
        groups.append(left & near)
        left &= ~near
    pale = ~hued & (weight > 0) & (light >= _OUTLINE)
    dark = ~hued & (weight > 0) & (light < _OUTLINE)
    # A hue is preferred to a grey of the same size: a car is its paint, not its windows.
    order = sorted(
        [*groups, pale], key=lambda group: -(weight * group).sum() * (1.0 if group is not pale else 0.6)
    )
    found = np.zeros(light.shape, bool)
    for group in [*order, dark]:
        if (weight * found).sum() >= _ENOUGH * weight.sum():
            break
        found |= group
    return found


def _softened(material: npt.NDArray[np.bool_], lab: Floats, weight: Floats) -> Floats:
    """How much of the colour each pixel gets: without specks and holes, with soft edges; outlines stay."""
    shares = _smoothed(material.astype(np.float32))
    shares = ((shares - 0.3) / 0.3).clip(0, 1)
    is_dark = (lab[..., 0] < _OUTLINE) & (np.hypot(lab[..., 1], lab[..., 2]) <= _NO_HUE)
    is_outline = is_dark & bool((weight * is_dark).sum() < _MOSTLY_DARK * weight.sum())
    found: Floats = np.where(is_outline, 0, shares).astype(np.float32)
    return found


def _smoothed(values: Floats) -> Floats:
    """The mean of each pixel's neighbourhood, [h, w] or [h, w, n]."""
    width = 2 * _SOFT + 1
    for axis in (0, 1):
        edges = [(_SOFT + 1, _SOFT) if each == axis else (0, 0) for each in range(values.ndim)]
        sums = np.pad(values, edges, mode="edge").cumsum(axis)
        size = sums.shape[axis]
        values = (sums.take(range(width, size), axis) - sums.take(range(size - width), axis)) / width
    return values.astype(np.float32)


def _tinted(lab: Floats, material: npt.NDArray[np.bool_], target: Floats, colour: str) -> Floats:
    light = lab[..., 0]
    chroma = np.hypot(lab[..., 1], lab[..., 2])
    mean, spread = light[material].mean(), chroma[material].mean()
    room = 0.5 if colour in NEUTRAL else 0.7
    lit = (target[0] + room * (light - mean)).clip(0.12, 0.99)
    strength = np.ones_like(chroma) if spread < _NO_HUE else (chroma / spread).clip(0.75, 1.15)
    # A very light part of a thing keeps less of a colour than its body, as paint does in the light.
    strength = strength * np.where(lit > 0.93, 0.5, 1)
    return np.stack([lit, target[1] * strength, target[2] * strength], -1)
