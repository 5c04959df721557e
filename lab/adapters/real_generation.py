"""How a generation of transformers is followed and stopped, on the real library. `make adapters` runs it.

The model is a small one with random weights behind VibeVoice's names: what it writes means nothing, but the
arguments, the tokens and the way out are the library's own.
"""

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.shared import ROOT

from engines.adapters.adapted import Adapted, tone
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancellation, Cancelled, EngineSpec
from tenuto.host.manifests import adapters

HERE = Path(__file__).parent
PYTHON = os.environ.get("ADAPTERS_PYTHON", str(ROOT / ".venv" / "adapters" / "bin" / "python"))
DEVICE = os.environ.get("ADAPTERS_DEVICE", "cpu")
SOUND = tone(300, 3)
TOKENS = 40
"""What the small model makes; the adapter would allow 1,096."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adapted]:
    folder = tmp_path_factory.mktemp("generation")
    python = folder / "python"
    command = shlex.join(["env", f"PYTHONPATH={HERE / 'tiny_vibevoice'}", PYTHON])
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    python.chmod(0o700)
    manifest = adapters()["vibevoice-asr"]
    chosen = {key: option.default for key, option in manifest.options.items()}
    told = {"model": manifest.model, "model_revision": "r1", "weights": {}, "threads": 2}
    options = {**told, **chosen, "model_dir": str(folder), "device": DEVICE}
    host = ChildHost(
        EngineSpec(
            manifest.engine,
            str(python),
            options,
            installed=True,
            folder=manifest.folder,
            load_timeout_s=300,
        )
    )
    host.load()
    yield Adapted(host, folder)
    host.close()


@pytest.mark.parametrize("again", [False, True])
def test_a_generation_is_followed_to_its_end(model: Adapted, again: bool) -> None:
    """Greedy and drawn: the library takes every argument, each token is counted, the prompt is none."""
    told: list[dict[str, Any]] = []
    result = model.run({"again": again}, {"audio": SOUND}, on_progress=told.append)
    value = json.loads(result.content)

    assert ["Real tokens, made up words."] == [one["text"] for one in value["segments"]]
    assert [] == value["doubts"]
    assert [*range(31)] + [30] * 10 == [one["completed"] for one in told]


def test_a_generation_is_stopped_between_two_tokens(model: Adapted) -> None:
    """What the listener raises comes out of generate; the model is there for the next run."""
    switch = Cancellation()
    told: list[dict[str, Any]] = []

    def hear(progress: dict[str, Any]) -> None:
        told.append(progress)
        switch.set()

    with pytest.raises(Cancelled) as ended:
        model.run({}, {"audio": SOUND}, on_progress=hear, cancelled=switch)

    assert not ended.value.lost
    assert len(told) < TOKENS
    assert model.heard(SOUND)["segments"]
