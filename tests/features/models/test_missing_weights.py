"""What a worker says of models whose weights are not there."""

from pathlib import Path

from msgspec.structs import replace

from servers.rig import Rig
from tenuto.config import ModelSettings, Settings
from tenuto.host.registry import engines_of, entry_of, missing_weights
from tenuto.kind.rules import models
from tenuto.worker.abilities import abilities_of

DUAL, SPEECH, IMAGE = "fake/dual-recognition", "fake/speech", "fake/image"


def test_a_composed_model_lacks_what_its_engines_lack(rig: Rig) -> None:
    """Without the weights of one of its engines it is not offered."""
    model = rig.context.models[DUAL]
    context = (entry_of("Systran/faster-whisper-base"), entry_of("openai/whisper-base"))
    real = replace(model.entry, composed_of=context)
    needed = {name for entry in engines_of(real) for name in entry.weights}

    assert needed
    assert sorted(needed) == sorted(missing_weights(real, rig.folder))


def reasons(settings: Settings) -> dict[str, str | None]:
    offered = {name: model for name, model in models(settings).items() if model.interface == "jobs"}
    return {ability.model: ability.reason for ability in abilities_of(settings, offered, list(offered))}


def test_a_worker_says_what_it_can_run_and_why_not(tmp_path: Path) -> None:
    bare = Settings(folder=tmp_path, cache=tmp_path / "empty")
    wrong = Settings(
        folder=tmp_path, engines="fake", models={SPEECH: ModelSettings(interpreter="/no/such/python")}
    )

    assert "tenuto models pull" in str(reasons(bare)["hexgrad/Kokoro-82M"])
    assert "not on this machine: /no/such/python" == reasons(wrong)[SPEECH]
    assert reasons(wrong)[IMAGE] is None
    little = Settings(folder=tmp_path, engine_memory_mib=10)
    assert "engine_memory_mib is 10" in str(reasons(little)["hexgrad/Kokoro-82M"])
