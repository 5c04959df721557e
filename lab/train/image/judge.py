"""The independent judge: which of all concepts a picture shows, by likeness to art that the generator never
sees.

`python -m lab.train.image.judge` builds it from four styles kept apart (OpenMoji, Emoji One v1 and v2, the
old
Noto), tells what it makes of real art of the generator's styles, and writes judge.npz and its hash; the hash
is committed before a generator is trained. A picture is cut to what stands out from its border, then compared
by gradients, silhouette and colour in the directions that tell concepts apart and styles not (linear
discriminant analysis). With `shape=True` colour is not looked at: for prompts that ask for another colour
than the art has. It learns nothing from the generator.
"""

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
from lab.train.image import art
from lab.train.image.places import HERE, work

Floats = npt.NDArray[np.float32]

SIDE = 32
BACKDROP = 0.96
_STANDS_OUT = 0.06
_MARGIN = 1.06
_OVERSAMPLING = 4
_DIRECTIONS = 120
_SHRINKAGE = 3.0
_WEIGHTS = {
    "edges4": 1.0,
    "edges8": 0.7,
    "outline": 0.7,
    "mask": 0.5,
    "lab4": 0.6,
    "lab8": 0.5,
    "colours": 0.9,
}
_SHAPE = ("edges4", "edges8", "outline", "mask")


def main() -> None:
    pictures, owners, styles = art.load()
    cut = np.stack([cut_out(on_backdrop(picture)) for picture in pictures])
    seen = styles >= len(art.GENERATOR_STYLES)
    kept: dict[str, npt.NDArray[Any]] = {"concepts": owners[seen]}
    for name in ("all", "shape"):
        kept |= {f"{name}_{key}": value for key, value in _learnt(cut[seen], owners[seen], name).items()}
    path = work("judge.npz")
    np.savez(path, **kept)  # type: ignore[arg-type]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (HERE / "judge.sha256").write_text(f"{digest}  judge.npz\n")
    print(digest)
    _tell_ceiling(Judge(), cut, owners, styles)


class Judge:
    """The finished judge."""

    def __init__(self) -> None:
        path = work("judge.npz")
        self.sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        with np.load(path) as kept:
            self._kept = {name: kept[name] for name in kept.files}
        self.styles_of = np.bincount(self._kept["concepts"])
        """In how many styles the judge knows each concept."""

    def scores(self, cut: Floats, *, shape: bool = False) -> Floats:
        """[n, concepts] for pictures [n, 32, 32, 3] that were cut out: the likeness to the nearest of the
        art."""
        name = "shape" if shape else "all"
        found = np.full((len(cut), len(self.styles_of)), -1, np.float32)
        for mirrored in (cut, cut[:, :, ::-1]):
            directions = _unit(
                (_described(mirrored, name, self._kept) - self._kept[f"{name}_middle"])
                @ self._kept[f"{name}_map"]
            )
            likeness = directions @ self._kept[f"{name}_gallery"].T
            for column, concept in enumerate(self._kept["concepts"]):
                found[:, concept] = np.maximum(found[:, concept], likeness[:, column])
        return found

    def ranks(
        self, cut: Floats, wanted: npt.NDArray[np.int64], *, shape: bool = False
    ) -> npt.NDArray[np.int64]:
        """How many concepts are liker to each picture than the wanted one."""
        scores = self.scores(cut, shape=shape)
        found: npt.NDArray[np.int64] = (scores > scores[np.arange(len(cut)), wanted][:, None]).sum(1)
        return found


def on_backdrop(picture: npt.NDArray[np.uint8]) -> Floats:
    """Premultiplied RGBA bytes as RGB on pale grey."""
    values = picture.astype(np.float32) / 255
    found: Floats = values[..., :3] + (1 - values[..., 3:]) * np.float32(BACKDROP)
    return found


def cut_out(picture: Floats) -> Floats:
    """[32, 32, 3]: what stands out from the border's colour, as a square; all of it where nothing does."""
    border = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    backdrop = np.median(border, 0)
    rows, columns = np.where(np.abs(picture - backdrop).max(-1) > _STANDS_OUT)
    height, width = picture.shape[:2]
    top, bottom, left, right = (
        (rows.min(), rows.max(), columns.min(), columns.max()) if len(rows) else (0, height - 1, 0, width - 1)
    )
    side = np.ceil((max(bottom - top, right - left) + 1) * _MARGIN)
    steps = (np.arange(SIDE * _OVERSAMPLING) + 0.5) / (SIDE * _OVERSAMPLING) - 0.5
    down = np.clip(np.round((top + bottom) / 2 + steps * side), -1, height).astype(int) + 1
    along = np.clip(np.round((left + right) / 2 + steps * side), -1, width).astype(int) + 1
    framed = np.empty((height + 2, width + 2, 3), np.float32)
    framed[:] = backdrop
    framed[1:-1, 1:-1] = picture
    blocks = framed[down][:, along].reshape(SIDE, _OVERSAMPLING, SIDE, _OVERSAMPLING, 3)
    found: Floats = blocks.mean((1, 3))
    return found


def _learnt(cut: Floats, owners: npt.NDArray[np.int64], name: str) -> dict[str, npt.NDArray[Any]]:
    """The scales of the features, the directions that tell concepts apart, and the art in those
    directions."""
    parts = _features(cut)
    kept: dict[str, npt.NDArray[Any]] = {f"mean_{key}": part.mean(0) for key, part in parts.items()}
    kept |= {f"scale_{key}": np.sqrt(part.var(0).sum()) / _WEIGHTS[key] for key, part in parts.items()}
    named = {f"{name}_{key}": value for key, value in kept.items()}
    both = np.concatenate([_described(cut, name, named), _described(cut[:, :, ::-1], name, named)])
    # A picture and its mirror image are two classes: left stays left within one.
    classes = np.concatenate([owners, owners + owners.max() + 1])
    means = np.stack([both[classes == number].mean(0) for number in range(classes.max() + 1)])
    inner = both - means[classes]
    values, vectors = np.linalg.eigh(inner.T @ inner / len(inner))
    values = values + _SHRINKAGE * values.sum() / len(values)
    whitened = vectors / np.sqrt(values) @ vectors.T
    spread = (means - means.mean(0)) @ whitened
    outer = np.linalg.eigh(spread.T @ spread)[1][:, -_DIRECTIONS:]
    kept["map"] = (whitened @ outer).astype(np.float32)
    kept["middle"] = both.mean(0)
    kept["gallery"] = _unit((both[: len(cut)] - kept["middle"]) @ kept["map"])
    return kept


def _described(cut: Floats, name: str, kept: dict[str, npt.NDArray[Any]]) -> Floats:
    parts = _features(cut)
    chosen = _SHAPE if name == "shape" else tuple(_WEIGHTS)
    scaled = [(parts[key] - kept[f"{name}_mean_{key}"]) / kept[f"{name}_scale_{key}"] for key in chosen]
    return np.concatenate(scaled, 1).astype(np.float32)


def _features(cut: Floats) -> dict[str, Floats]:
    pieces = [_features_of(cut[start : start + 128]) for start in range(0, len(cut), 128)]
    return {key: np.concatenate([piece[key] for piece in pieces]) for key in pieces[0]}


def _features_of(cut: Floats) -> dict[str, Floats]:
    lab = oklab(cut)
    mask = np.abs(cut - cut[:, :1, :1]).max(-1).clip(0, 0.3) / np.float32(0.3)
    scaled = lab * np.array([1, 3, 3], np.float32)
    return {
        "edges4": _edges(lab[..., 0], 4),
        "edges8": _edges(lab[..., 0], 8),
        "outline": _edges(mask / 2, 4),
        "mask": _blocks(mask[..., None], 2),
        "lab4": _blocks(scaled, 4),
        "lab8": _blocks(scaled, 8),
        "colours": _colours(scaled, mask),
    }


def oklab(rgb: Floats) -> Floats:
    """Oklab of sRGB in 0..1 (https://bottosson.github.io/posts/oklab/)."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    axes = np.array(
        [
            [0.2104542553, 0.793617785, -0.0040720468],
            [1.9779984951, -2.428592205, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.808675766],
        ]
    )
    return (np.cbrt(np.maximum(linear @ cones.T, 0)) @ axes.T).astype(np.float32)


def _edges(values: Floats, cell: int, directions: int = 8) -> Floats:
    """Histograms of gradients: how much runs which way in each cell."""
    framed = np.pad(values, ((0, 0), (1, 1), (1, 1)), mode="edge")
    along, down = framed[:, 1:-1, 2:] - framed[:, 1:-1, :-2], framed[:, 2:, 1:-1] - framed[:, :-2, 1:-1]
    strength = np.hypot(along, down)
    angle = np.mod(np.arctan2(down, along), np.pi) / np.pi * directions
    first, share = np.floor(angle).astype(int) % directions, angle - np.floor(angle)
    spread = np.zeros((*values.shape, directions), np.float32)
    np.put_along_axis(spread, first[..., None], (strength * (1 - share))[..., None], -1)
    second = np.zeros_like(spread)
    np.put_along_axis(second, ((first + 1) % directions)[..., None], (strength * share)[..., None], -1)
    cells = SIDE // cell
    summed = (spread + second).reshape(len(values), cells, cell, cells, cell, directions).sum((2, 4))
    energy = np.square(summed)
    level = np.sqrt(
        energy.sum(-1, keepdims=True) + 0.05 * energy.sum((1, 2, 3), keepdims=True) / cells**2 + 1e-4
    )
    return np.sqrt(summed / level).reshape(len(values), -1)


def _blocks(values: Floats, cell: int) -> Floats:
    cells = SIDE // cell
    found: Floats = (
        values.reshape(len(values), cells, cell, cells, cell, -1).mean((2, 4)).reshape(len(values), -1)
    )
    return found


def _colours(scaled: Floats, mask: Floats) -> Floats:
    """How much of what stands out has which of a hundred colours."""
    steps = (-0.5, -0.2, 0.0, 0.2, 0.5)
    centres = np.array(
        [(light, a, b) for light in (0.3, 0.5, 0.7, 0.9) for a in steps for b in steps], np.float32
    )
    flat = scaled.reshape(len(scaled), -1, 3)
    near = np.exp(-np.square(flat[:, :, None] - centres).sum(-1) / np.float32(0.02))
    near /= near.sum(-1, keepdims=True) + 1e-6
    weight = mask.reshape(len(mask), -1)
    found: Floats = np.sqrt((near * weight[..., None]).sum(1) / (weight.sum(1)[:, None] + 1e-3))
    return found


def _unit(rows: Floats) -> Floats:
    found: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def _tell_ceiling(
    judge: Judge, cut: Floats, owners: npt.NDArray[np.int64], styles: npt.NDArray[np.int64]
) -> None:
    """What the judge says of real art that it has not seen: no generator can be expected to do better."""
    for number, style in enumerate(art.GENERATOR_STYLES):
        mine = styles == number
        known = judge.styles_of[owners[mine]] >= 3
        for shape in (False, True):
            ranks = judge.ranks(cut[mine], owners[mine], shape=shape)
            figures = [
                np.mean(ranks < 1),
                np.mean(ranks < 5),
                np.mean(ranks[known] < 1),
                np.mean(ranks[known] < 5),
            ]
            said = "all {:.3f} {:.3f}, concepts of three styles and more {:.3f} {:.3f}".format(*figures)
            print(
                f"real {style}, {'shape' if shape else 'shape and colour'}: top-1, top-5 of {said}",
                flush=True,
            )


if __name__ == "__main__":
    main()
