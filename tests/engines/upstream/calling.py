"""Engines that call servers, made from an operator's table as a worker makes them, and runs for them."""

import importlib
import time
import tomllib
from pathlib import Path
from typing import Any

from tenuto.config import Settings
from tenuto.config.model_settings import read_models
from tenuto.kind.model import models
from tenuto.worker.engines import spec_of
from tenuto_engine import Cancelled

NAME = "there/model"


def engine(adapter: str, url: str, table: str = "", *, metered: bool = False, patience_s: int = 0) -> Any:
    """The engine of this adapter at this address; `table` is more of its table in TOML."""
    text = f'adapter = "{adapter}"\nupstream = "{url}"\nmetered = {str(metered).lower()}\n{table}'
    own = tomllib.loads(text)
    own["options"] = {"patience_s": patience_s, **own.get("options", {})}
    faults: list[str] = []
    tables = read_models({NAME: own}, faults)
    assert not faults, faults
    settings = Settings(folder=Path("x"), models=tables)
    spec = spec_of(models(settings)[NAME].entry, settings)
    module, _, name = spec.engine.partition(":")
    return getattr(importlib.import_module(module), name)(spec.options)


class Asked:
    """A run with these parameters; it is cancelled so many seconds after its start, if at all."""

    run_id = "attempt_1"

    def __init__(
        self, parameters: dict[str, Any], inputs: dict[str, bytes] | None = None, cancel_after_s: float = 600
    ) -> None:
        self.parameters = parameters
        self.inputs = inputs or {}
        self.shown: list[bytes] = []
        self.told: list[tuple[str, int, int, str]] = []
        self._cancel_at = time.monotonic() + cancel_after_s

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        self.shown.append(content)

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        self.told.append((stage, completed, total, unit))

    def check_cancelled(self) -> None:
        if time.monotonic() > self._cancel_at:
            raise Cancelled


def speech(text: str = "Hold the note.", **more: Any) -> dict[str, Any]:
    """Parameters of a speech job, as they reach an engine."""
    usual = {"lang": "en", "duration_factor": 1, "interval_silence": 200, "stream": False}
    return {**usual, "text": text, **more}


def image(**more: Any) -> dict[str, Any]:
    """The same of an image job."""
    usual = {"width": 1024, "height": 1024, "num_inference_steps": 9, "guidance_scale": 0, "seed": 2**62}
    return {**usual, "prompt": "a crane", **more}
