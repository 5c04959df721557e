"""Engines that call servers, made from an operator's table as a worker makes them, and runs for them."""

import importlib
import time
import tomllib
from pathlib import Path
from typing import Any

from engines.runs import RecordedRun
from tenuto.config import Settings
from tenuto.config.model_settings import read_models
from tenuto.errors import Fault
from tenuto.kind.model import models
from tenuto.worker.engines import spec_of

NAME = "there/model"


def engine(adapter: str, url: str, table: str = "", *, metered: bool = False, patience_s: int = 0) -> Any:
    """The engine of this adapter at this address; `table` is more of its table in TOML."""
    text = f'adapter = "{adapter}"\nupstream = "{url}"\nmetered = {str(metered).lower()}\n{table}'
    own = tomllib.loads(text)
    own["options"] = {"patience_s": patience_s, **own.get("options", {})}
    faults: list[Fault] = []
    tables = read_models({NAME: own}, faults)
    assert not faults, faults
    settings = Settings(folder=Path("x"), models=tables)
    spec = spec_of(models(settings)[NAME].entry, settings)
    module, _, name = spec.engine.partition(":")
    return getattr(importlib.import_module(module), name)(spec.options)


class Asked(RecordedRun):
    """A run with these parameters; it is cancelled so many seconds after its start, if at all."""

    def __init__(
        self, parameters: dict[str, Any], inputs: dict[str, bytes] | None = None, cancel_after_s: float = 600
    ) -> None:
        cancel_at = time.monotonic() + cancel_after_s
        super().__init__(parameters, inputs, lambda run: time.monotonic() > cancel_at)


def speech(text: str = "Hold the note.", **more: Any) -> dict[str, Any]:
    """Parameters of a speech job, as they reach an engine."""
    usual = {"lang": "en", "duration_factor": 1, "interval_silence": 200, "stream": False}
    return {**usual, "text": text, **more}


def image(**more: Any) -> dict[str, Any]:
    """The same of an image job."""
    usual = {"width": 1024, "height": 1024, "num_inference_steps": 9, "guidance_scale": 0, "seed": 2**62}
    return {**usual, "prompt": "a crane", **more}
