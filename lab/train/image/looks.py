"""What a finished picture shows beyond which thing: its parts, how many there are, and of what colour each
is.

`python -m lab.train.image.looks` tells how the rule of colours fares on real art whose name is a colour.
Rules of thumb, fixed before a generator was trained; they look at nothing but pixels.
"""

import numpy as np
import numpy.typing as npt
from lab.train.image import art
from lab.train.image.concepts import code_of, read_json
from lab.train.image.judge import cut_out, oklab, on_backdrop

Floats = npt.NDArray[np.float32]

COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "grey")
_NEUTRAL = ("black", "white", "grey")
_STANDS_OUT = 0.06
_GRID = 128
_LEAST_PART = 0.12
"""A part smaller than this share of the largest one is a crumb of another."""


def colour_is(picture: Floats, wanted: str) -> bool:
    """Whether most of what stands out is of the wanted colour.

    Asked for a colour, what is black, white or grey (outlines, eyes, wheels) does not count against it, as
    long as the wanted colour takes a fifth; asked for black, white or grey, all counts.
    """
    shares = dict(zip(COLOURS, _shares(picture), strict=True))
    if wanted in _NEUTRAL:
        return max(shares, key=lambda name: shares[name]) == wanted
    bright = {name: share for name, share in shares.items() if name not in _NEUTRAL}
    return max(bright, key=lambda name: bright[name]) == wanted and bright[wanted] >= 0.2


def parts(picture: Floats) -> list[tuple[int, int, int, int]]:
    """The boxes (top, bottom, left, right) of what stands apart, in reading order of their middles."""
    mask = _stands_out(picture)
    height, width = mask.shape
    step = max(1, max(height, width) // _GRID)
    rows, columns = -(-height // step), -(-width // step)
    framed = np.zeros((rows * step, columns * step), bool)
    framed[:height, :width] = mask
    grid = framed.reshape(rows, step, columns, step).any((1, 3))
    labels = _labels(grid)
    boxes, sizes = [], []
    for number in range(1, labels.max() + 1):
        down, along = np.where((labels == number) & grid)
        boxes.append(
            (down.min() * step, (down.max() + 1) * step, along.min() * step, (along.max() + 1) * step)
        )
        sizes.append(len(down))
    kept = [box for box, size in zip(boxes, sizes, strict=True) if size >= _LEAST_PART * max(sizes)]
    return sorted(kept, key=lambda box: (box[0] + box[1], box[2] + box[3]))


def halves(picture: Floats, axis: int) -> tuple[Floats, Floats]:
    """Two pieces, cut where least stands out across the middle third; axis 1 cuts left from right."""
    profile = _stands_out(picture).sum(1 - axis)
    size = len(profile)
    middle = np.arange(size // 4, size - size // 4)
    # Of equally empty places the one nearest to the middle.
    cost = profile[middle] + 1e-3 * np.abs(middle - size / 2) / size
    at = int(middle[np.argmin(cost)])
    first, second = np.split(picture, [at], axis=axis)
    return first, second


def _stands_out(picture: Floats) -> npt.NDArray[np.bool_]:
    border = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    found: npt.NDArray[np.bool_] = np.abs(picture - np.median(border, 0)).max(-1) > _STANDS_OUT
    return found


def _labels(grid: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Numbers of connected areas, those with at most one empty cell between them joined."""
    wide = np.pad(grid, 1)
    near = np.zeros_like(grid)
    for down in range(3):
        for along in range(3):
            near |= wide[down : down + grid.shape[0], along : along + grid.shape[1]]
    labels = np.zeros(grid.shape, np.int64)
    number = 0
    for start in zip(*np.where(near), strict=True):
        if labels[start]:
            continue
        number += 1
        labels[start] = number
        waiting = [start]
        while waiting:
            row, column = waiting.pop()
            for beside in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                inside = 0 <= beside[0] < grid.shape[0] and 0 <= beside[1] < grid.shape[1]
                if inside and near[beside] and not labels[beside]:
                    labels[beside] = number
                    waiting.append(beside)
    return labels


def _shares(picture: Floats) -> npt.NDArray[np.float64]:
    """Of what stands out, the share of each of COLOURS."""
    mask = _stands_out(picture)
    if not mask.any():
        # White on white: what does not stand out is all that there is.
        mask[:] = True
    light, green_red, blue_yellow = oklab(picture[mask].reshape(1, -1, 3))[0].T
    chroma = np.hypot(green_red, blue_yellow)
    hue = np.degrees(np.arctan2(blue_yellow, green_red)) % 360
    names = np.select(
        [
            (light < 0.38) & (chroma < 0.06),
            (chroma < 0.035) & (light > 0.86),
            chroma < 0.035,
            (hue >= 30) & (hue < 90) & (light < 0.66) & (chroma < 0.15),
            ((hue >= 320) | (hue < 5)) | ((hue < 25) & (light > 0.72)),
            hue < 42,
            hue < 76,
            hue < 112,
            hue < 190,
            hue < 285,
        ],
        ["black", "white", "grey", "brown", "pink", "red", "orange", "yellow", "green", "blue"],
        "purple",
    )
    return np.array([np.mean(names == name) for name in COLOURS])


def main() -> None:
    labels = {
        entry["label"]: code_of(entry["hexcode"]) for entry in read_json("emojibase-data", "en/data.json")
    }
    right = {name: [0, 0] for name in COLOURS}
    for style in art.STYLES:
        drawings = art.vectors(style)
        for name in COLOURS:
            for thing in ("heart", "circle", "square", "book", "large square", "apple"):
                code = labels.get(f"{name} {thing}", "")
                if code in drawings:
                    seen = cut_out(on_backdrop(art.drawn(drawings[code], 128)))
                    right[name][0] += colour_is(seen, name)
                    right[name][1] += 1
    for name, (hits, count) in right.items():
        print(f"{name}: {hits} of {count}")


if __name__ == "__main__":
    main()
