"""Step 3: pictures as 1280 numbers and back: the principal components of all pictures of the generator's
styles.

`python -m lab.train.image.latents` writes latents.npz: the mean, the components, and the numbers of every
picture. A picture is 64 × 64 premultiplied RGBA; brightness and alpha keep every pixel, the two colour axes
every second one each way, as JPEG has it. Knows no concepts and no networks.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from lab.train.image import art
from lab.train.image.places import work

Floats = npt.NDArray[np.float32]

SIDE = 64
DIMENSIONS = 1280
# BT.601: brightness, and how much bluer and redder than it.
AXES = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32)


def main() -> None:
    pictures, owners, styles = art.load()
    mine = styles < len(art.GENERATOR_STYLES)
    rows = flat(art.smaller(pictures[mine], SIDE))
    mean = rows.mean(0)
    centred = rows - mean
    # The components of few long rows, by way of the small matrix of their products.
    values, vectors = np.linalg.eigh(centred @ centred.T)
    values, vectors = values[::-1][:DIMENSIONS], vectors[:, ::-1][:, :DIMENSIONS]
    components = (vectors.T @ centred) / np.sqrt(values)[:, None]
    numbers = centred @ components.T
    scale = np.sqrt(np.square(numbers).mean())
    lost = 1 - np.square(numbers).sum() / np.square(centred).sum()
    kept: dict[str, Any] = {"mean": mean, "components": components.astype(np.float32), "scale": scale}
    kept |= {"numbers": numbers / scale, "concepts": owners[mine], "styles": styles[mine]}
    np.savez(work("latents.npz"), **kept)
    print(f"{len(rows)} pictures as {DIMENSIONS} numbers each; {lost:.2%} of the variance is lost")


def load() -> dict[str, npt.NDArray[Any]]:
    """What `main` wrote."""
    with np.load(work("latents.npz")) as kept:
        return {name: kept[name] for name in kept.files}


def flat(pictures: Floats) -> Floats:
    """[n, 10240] of [n, 64, 64, 4] in 0..1. The colour axes count double: each value stands for four
    pixels."""
    count, half = len(pictures), SIDE // 2
    axes = pictures[..., :3] @ AXES.T
    colours = axes[..., 1:].reshape(count, half, 2, half, 2, 2).mean((2, 4)) * 2
    parts = (axes[..., 0], pictures[..., 3], colours[..., 0], colours[..., 1])
    return np.concatenate([part.reshape(count, -1) for part in parts], 1).astype(np.float32)


def unflat(rows: Floats) -> Floats:
    """[n, 64, 64, 4] of [n, 10240], clipped to 0..1."""
    count, half, pixels = len(rows), SIDE // 2, SIDE * SIDE
    bright, alpha = rows[:, :pixels], rows[:, pixels : 2 * pixels]
    colours = rows[:, 2 * pixels :].reshape(count, 2, half, half).repeat(2, 2).repeat(2, 3) / 2
    axes = np.stack([bright, *colours.reshape(count, 2, pixels).transpose(1, 0, 2)], -1)
    values = np.concatenate([axes @ np.linalg.inv(AXES).T.astype(np.float32), alpha[..., None]], -1)
    found: Floats = values.reshape(count, SIDE, SIDE, 4).clip(0, 1)
    return found


if __name__ == "__main__":
    main()
