"""The diffusers adapter in a host, made from an operator's table, and images by it."""

import io
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from tenuto.config import Settings
from tenuto.config.model_settings import read_models
from tenuto.errors import Fault
from tenuto.host import manifests
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancellation, HostResult
from tenuto.kind.model import models
from tenuto.worker.engines import spec_of

NAME = "here/pictures"


class Drawing:
    """A host with a pipeline."""

    def __init__(self, adapter: str, interpreter: str, pipeline: Path, more: str = "") -> None:
        self.pipeline = pipeline
        licence = manifests.adapters()[adapter].licence.name
        table = tomllib.loads(
            f'adapter = "{adapter}"\ninterpreter = "{interpreter}"\naccept_licence = "{licence}"\n'
            f'options.path = "{pipeline}"\n{more}'
        )
        faults: list[Fault] = []
        settings = Settings(folder=Path("x"), models=read_models({NAME: table}, faults))
        assert not faults, faults
        self.entry = models(settings)[NAME].entry
        self.host = ChildHost(spec_of(self.entry, settings))
        self.steps: list[tuple[int, int]] = []

    def draw(
        self, prompt: str = "a crane", *, on_step: Callable[[], None] | None = None, **more: Any
    ) -> HostResult:
        """An image; what is left out is the manifest's, but for a small size and two steps."""
        if not self.host.alive:
            self.host.load()
        self.steps.clear()
        small = {"width": 256, "height": 256, "num_inference_steps": 2, "seed": 7}
        self.stop = Cancellation()

        def progress(made: dict[str, Any]) -> None:
            self.steps.append((made["completed"], made["total"]))
            if on_step is not None:
                on_step()

        return self.host.run(
            {**self.entry.defaults, **small, **more, "prompt": prompt},
            {},
            on_segment=lambda content, metadata: None,
            on_progress=progress,
            deadline_s=120,
            cancelled=self.stop,
            grace_s=60,
        )

    def cancel(self) -> None:
        """Ask the run that is under way to stop."""
        self.stop.set()

    def calls(self, name: str) -> list[dict[str, Any]]:
        """What reached a stand-in's pipeline."""
        lines = (self.pipeline / "calls.jsonl").read_text("utf-8").splitlines()
        return [call for call in map(json.loads, lines) if call["call"] == name]


def pixels(result: HostResult) -> npt.NDArray[np.uint8]:
    """The picture as it is looked at."""
    assert "image/png" == result.media_type
    return np.asarray(Image.open(io.BytesIO(result.content)))
