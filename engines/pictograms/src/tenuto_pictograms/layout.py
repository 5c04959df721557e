"""Where everything in a scene goes, and what it stands on. Pure geometry and plain colours; knows no
networks.

One kind of thing fills the canvas in rows that suit its shape. Several stand side by side, or one above the
other, as their relations say. A canvas that is not square, or a place in the prompt, gets a horizon to stand
on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .canvas import Place
from .palette import SRGB
from .prompt import Scene, Thing

Floats = npt.NDArray[np.float32]
Cell = tuple[float, float, float, float]
"""Left, top, width and height."""

_FILL = 0.88
"""The share of its cell that a thing takes."""
_UPRIGHT = ("above", "below", "on", "in")
_NEAR = {"on": 0.16, "in": 0.34, "behind": 0.3, "before": 0.3}
"""The share of a thing's side by which it overlaps what it is on, in, behind or before."""
_LONG = 1.3
"""Sides that differ by more make a scene with a horizon."""

# What is above and below the horizon; None: no horizon.
_PLACES: dict[str, tuple[tuple[int, int, int], tuple[int, int, int] | None]] = {
    "sky": ((150, 205, 245), None),
    "sea": ((205, 232, 250), (70, 140, 200)),
    "grass": ((210, 236, 252), (140, 195, 100)),
    "snow": ((200, 220, 240), (246, 250, 254)),
    "sand": ((208, 234, 250), (232, 208, 150)),
    "night": ((24, 30, 62), (44, 52, 84)),
    "space": ((14, 14, 34), None),
    "room": ((246, 234, 216), (205, 172, 132)),
    "": ((245, 245, 245), (228, 230, 233)),
}
_SHADED = (186, 200, 214)
"""For things that are white themselves."""
_STARS = 90


@dataclass(frozen=True)
class Placed:
    """One copy of thing number `thing`; what comes first is painted first."""

    thing: int
    place: Place


def placed(scene: Scene, width: int, height: int, chance: np.random.Generator) -> list[Placed]:
    """Every copy of every thing, in the order of painting."""
    horizon = _has_horizon(scene, width, height)
    if len(scene.things) > 1 and all(relation == "beside" for relation in scene.relations):
        return _mixed(scene, float(width), float(height), chance)
    cells = _cells(scene, float(width), float(height))
    found: list[Placed] = []
    for number, (thing, cell) in enumerate(zip(scene.things, cells, strict=True)):
        found += _filled(number, thing, cell, chance, sinks=horizon)
    return _overlapped(scene, found)


def backdrop(scene: Scene, width: int, height: int, chance: np.random.Generator, *, is_pale: bool) -> Floats:
    """[height, width, 3]. `is_pale` says that what will stand on it is mostly white."""
    upper, lower = _PLACES[scene.place]
    if scene.backdrop:
        upper, lower = SRGB[scene.backdrop], None
    elif not scene.place and is_pale:
        upper, lower = _SHADED, (168, 184, 200)
    canvas = np.empty((height, width, 3), np.float32)
    canvas[:] = np.array(upper, np.float32) / 255
    if lower and _has_horizon(scene, width, height):
        edge = height * (0.7 if height <= width else 0.8)
        share = (np.arange(height, dtype=np.float32) - edge + 0.5).clip(0, 1)[:, None, None]
        canvas = canvas * (1 - share) + share * np.array(lower, np.float32) / 255
    if scene.place in ("night", "space"):
        _add_stars(canvas, chance, height if scene.place == "space" else int(height * 0.7))
    return canvas.astype(np.float32)


def _has_horizon(scene: Scene, width: int, height: int) -> bool:
    if scene.backdrop:
        return False
    return bool(scene.place) or max(width, height) >= _LONG * min(width, height)


def _cells(scene: Scene, width: float, height: float) -> list[Cell]:
    """Left, top, width and height of what each thing has to itself."""
    count = len(scene.things)
    if count == 1:
        return [(0.0, 0.0, width, height)]
    upright = any(relation in _UPRIGHT for relation in scene.relations)
    order = _order(scene.relations, count)
    shares = [math.sqrt(thing.count) * thing.size for thing in scene.things]
    total, at = sum(shares), 0.0
    cells: dict[int, Cell] = {}
    for number in order:
        share = shares[number] / total
        cells[number] = (
            (0.0, at * height, width, share * height) if upright else (at * width, 0.0, share * width, height)
        )
        at += share
    return [cells[number] for number in range(count)]


def _order(relations: tuple[str, ...], count: int) -> list[int]:
    """The things from left to right, or from top to bottom."""
    order = [0]
    for number in range(1, count):
        before = order.index(number - 1)
        goes_first = relations[number - 1] in ("right", "below", "behind")
        order.insert(before if goes_first else before + 1, number)
    return order


def _mixed(scene: Scene, width: float, height: float, chance: np.random.Generator) -> list[Placed]:
    """All copies of all things as one crowd in rows, where the prompt says no more than `and`."""
    whose = [number for number, thing in enumerate(scene.things) for _ in range(thing.count)]
    crowd = _filled(0, Thing("", len(whose)), (0.0, 0.0, width, height), chance, sinks=False)
    found = []
    for number, one in zip(whose, crowd, strict=True):
        thing, here = scene.things[number], one.place
        tilt = here.tilt if thing.count > 1 else 0.0
        found.append(Placed(number, Place(here.across, here.down, here.side * min(thing.size, 1.08), tilt)))
    return found


def _rows(count: int, width: float, height: float) -> tuple[int, int]:
    """The rows and columns that leave each of `count` squares the most room."""
    choices = [(rows, -(-count // rows)) for rows in range(1, count + 1)]
    return max(choices, key=lambda choice: min(height / choice[0], width / choice[1]))


def _filled(
    number: int, thing: Thing, cell: Cell, chance: np.random.Generator, *, sinks: bool
) -> list[Placed]:
    """The copies of one thing, in rows that leave each the most room."""
    left, top, wide, high = cell
    rows, columns = _rows(thing.count, wide, high)
    across, down = wide / columns, high / rows
    side = min(across, down) * _FILL * min(thing.size, 1.08)
    # A single row on a horizon stands a little lower than the middle.
    lower = min(0.08 * high, 0.45 * (high - side)) if sinks and rows == 1 else 0.0
    found = []
    for copy in range(thing.count):
        row = copy // columns
        in_row = min(columns, thing.count - row * columns)
        middle = left + wide / 2 + (copy - row * columns - (in_row - 1) / 2) * across
        tilt, shrink = 0.0, 1.0
        if thing.count > 1:
            tilt, shrink = float(chance.uniform(-5, 5)), float(chance.uniform(0.92, 1))
        found.append(Placed(number, Place(middle, top + (row + 0.5) * down + lower, side * shrink, tilt)))
    return found


def _overlapped(scene: Scene, found: list[Placed]) -> list[Placed]:
    """What is on, in, behind or before another thing moves towards it; what is behind is painted first."""
    for number, relation in enumerate(scene.relations):
        share = _NEAR.get(relation)
        first = [one for one in found if one.thing == number]
        second = [one for one in found if one.thing == number + 1]
        if share is None or len(first) != 1 or len(second) != 1:
            continue
        here, there = first[0].place, second[0].place
        gap = -share * min(here.side, there.side)
        nearer = _moved(here, there, gap, upright=relation in _UPRIGHT)
        moved = {number: nearer[0], number + 1: nearer[1]}
        found = [Placed(one.thing, moved.get(one.thing, one.place)) for one in found]
        if relation == "before":
            found = [one for one in found if one.thing != number] + [
                one for one in found if one.thing == number
            ]
    return found


def _moved(here: Place, there: Place, gap: float, *, upright: bool) -> tuple[Place, Place]:
    """Both moved by the same, until so much is between their sides."""
    reach = (here.side + there.side) / 2 + gap
    apart = there.down - here.down if upright else there.across - here.across
    step = (apart - math.copysign(reach, apart)) / 2
    across, down = (0.0, step) if upright else (step, 0.0)
    return (
        Place(here.across + across, here.down + down, here.side, here.tilt),
        Place(there.across - across, there.down - down, there.side, there.tilt),
    )


def _add_stars(canvas: Floats, chance: np.random.Generator, height: int) -> None:
    for _ in range(_STARS):
        down, across = int(chance.integers(0, height)), int(chance.integers(0, canvas.shape[1]))
        size = int(chance.integers(1, 3))
        canvas[down : down + size, across : across + size] = chance.uniform(0.5, 1)
