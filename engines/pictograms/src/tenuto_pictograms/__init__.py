"""Images by Tenuto's own small model: pictograms of some seven hundred things, laid out as the prompt says.

The prompt is read by rules (`prompt.py`), what each phrase means is told by a sentence encoder, each thing is
generated from noise by a flow-matching network, coloured, enlarged and laid on a canvas of the size asked
for. What the model can and cannot draw: engines/pictograms/README.md. Knows no jobs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tenuto_engine import Result, Run

from . import canvas, layout, palette
from .model import Pictograms
from .prompt import MAX_THINGS, Reader, Scene

Floats = npt.NDArray[np.float32]

MODEL_ID = "tenuto/pictograms"
THREADS = 2
UNSURE = 0.45
"""A phrase that is not nearer than this to any concept means something that the model cannot draw."""
_PALE = 0.8
_LARGE = 256
"""The side of a picture that was enlarged once, in pixels."""


class PictogramsEngine:
    """The loaded model; takes one run at a time."""

    def __init__(self, options: dict[str, Any]) -> None:
        threads = int(options.get("threads") or min(THREADS, os.cpu_count() or 1))
        self._revision = str(options.get("model_revision", ""))
        weights = options["weights"]
        self._model = Pictograms(Path(weights["pictograms"]), Path(weights["e5-small-q4"]), threads)
        self._reader = Reader(self._model.names)
        self.info = {"model_id": MODEL_ID, "threads": threads, "concepts": len(self._model.labels)}

    def run(self, run: Run) -> Result:
        """`prompt`, `width`, `height`, `num_inference_steps`, `guidance_scale` and `seed` are all there."""
        asked = run.parameters
        scene = self._reader.read(str(asked["prompt"]))
        width, height, seed = int(asked["width"]), int(asked["height"]), int(asked["seed"])
        meant = self._model.concepts([thing.phrase for thing in scene.things])
        drawings = self._drawings(run, scene, [concept for concept, _ in meant], seed)
        where = layout.placed(scene, width, height, np.random.default_rng([seed, MAX_THINGS]))
        sides = {placed.thing: placed.place.side for placed in where}
        sizes = [self._sizes(run, picture, sides[number]) for number, picture in enumerate(drawings)]
        is_pale = all(_is_pale(picture) for picture in drawings)
        painted = layout.backdrop(
            scene, width, height, np.random.default_rng([seed, MAX_THINGS + 1]), is_pale=is_pale
        )
        for placed in where:
            run.check_cancelled()
            canvas.paste(painted, sizes[placed.thing], placed.place)
        warnings = [*scene.warnings, *self._doubts(scene, meant)]
        metadata: dict[str, Any] = {
            "model_id": MODEL_ID,
            "model_revision": self._revision,
            "warnings": warnings,
        }
        metadata["drawn"] = [
            {"phrase": thing.phrase, "concept": self._model.labels[concept], "count": thing.count}
            for thing, (concept, _) in zip(scene.things, meant, strict=True)
        ]
        return Result("image/png", canvas.png(painted), metadata)

    def _drawings(self, run: Run, scene: Scene, concepts: list[int], seed: int) -> list[Floats]:
        """One picture of each thing, 256 pixels square, in the colour that is asked for."""
        steps = int(run.parameters["num_inference_steps"])

        def on_step(step: int) -> None:
            run.check_cancelled()
            run.progress("drawing", step, steps, "steps")

        guidance = float(run.parameters["guidance_scale"])
        small = self._model.generate(concepts, seed, steps, guidance, on_step)
        found = []
        for thing, picture in zip(scene.things, small, strict=True):
            run.check_cancelled()
            large = self._model.enlarged(picture)
            found.append(palette.recoloured(large, thing.colour) if thing.colour else large)
        return found

    def _sizes(self, run: Run, picture: Floats, side: float) -> list[Floats]:
        """The picture, and a larger one where the canvas has room for it."""
        if side <= _LARGE * 1.1:
            return [picture]
        run.check_cancelled()
        return [picture, self._model.enlarged(picture)]

    def _doubts(self, scene: Scene, meant: list[tuple[int, float]]) -> list[str]:
        """One sentence for each thing that is drawn as something else, or only may be what was meant."""
        doubts = []
        for thing, (concept, likeness) in zip(scene.things, meant, strict=True):
            label = self._model.labels[concept]
            if likeness < UNSURE:
                why, instead = "is not among the things that this model can draw", "the nearest is drawn"
            elif thing.phrase not in self._model.names:
                why, instead = "is not a name that this model knows", "drawn as"
            else:
                continue
            doubts.append(f"{thing.phrase!r} {why}; {instead}: {label}")
        return doubts


def _is_pale(picture: Floats) -> bool:
    """Whether a picture is mostly white, so that it would not show on a pale backdrop."""
    alpha = picture[..., 3]
    light = picture[..., :3].min(-1)
    return float(light.sum()) > _PALE * float(alpha.sum())
