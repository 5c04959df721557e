"""Our engines as the conformance suite takes them: the fakes, those with weights, those against stand-ins."""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import tenuto.features.fakes
from engines.adapters.adapted import STUBS, voice
from servers.cores import ENGINE_THREADS
from servers.media_upstream import MediaUpstream
from tenuto.config import Settings
from tenuto.config.model_settings import read_models
from tenuto.errors import Fault
from tenuto.features.models.cache import default_cache
from tenuto.host.registry import EngineEntry, engines_of, entries
from tenuto.kind.model import models
from tenuto.worker.engines import spec_of
from tenuto_engine.conformance import Subject, Verdict, subjects

GRACE_S = 240.0
"""How long a cancelled run may take here, and a fifth of it to end as finished: a busy machine is not the
engine's fault."""
PATIENT: dict[str, Any] = {"grace_s": GRACE_S, "run_timeout_s": 250.0}
TINY = [1101] * 4_000 + [0] * 4_000
"""Sound that has the fake recognition wait for a tenth of a second."""

FAKES = {
    entry.model: entry
    for model in entries(fake=True)
    for entry in engines_of(model)
}  # fmt: skip
_SLOW = {
    "speech": {"text": "[fake:slow_segments=0.2] " + "a word " * 400},
    "image": {"prompt": "[fake:sleep=60] a crane"},
}
REAL: dict[str, dict[str, Any]] = {
    "kokoro": {"parameters": {"text": "你好。"}},
    "whisper": {},
    "whisper-given-language": {},
    "llama": {},
    "pictograms": {},
    "e5": {
        "inputs": {"inputs": json.dumps(["Hold the note."]).encode()},
        "long_inputs": {"inputs": json.dumps(["word " * 400] * 75).encode()},
    },
}


def fake(model: str) -> Subject:
    """A fake of the service, in the process that a worker would start."""
    entry = FAKES[model]
    slow = b"".join(value.to_bytes(2, "little") for value in TINY) * 200
    messages = [{"role": "user", "content": "[fake:slow=0.1] " + "word " * 300}]
    long = {"audio": slow, "messages": json.dumps(messages).encode()}
    return replace(
        of_entry(entry, "tenuto_engines." + entry.engine),
        packages={"tenuto_engines": str(Path(tenuto.features.fakes.__file__ or "").parent)},
        parameters={**entry.defaults, **({"max_tokens": 400} if entry.kind == "chat" else {})},
        long_parameters=_SLOW.get(entry.kind, {}),
        long_inputs={name: long[name] for name in long if (name == "audio") == (entry.kind == "recognition")},
    )


def real(name: str) -> Subject:
    """An engine with its weights, from the cache of `tenuto models pull`."""
    more = {**PATIENT, **REAL[name]}
    options = {"threads": ENGINE_THREADS or 2}
    return subjects(name, weights=default_cache(), options=options, **more)[name]


def remote(adapter: str, upstream: MediaUpstream, folder: Path) -> Subject:
    """An engine that calls a server, as a worker makes it from an operator's table."""
    (folder / "reference.wav").write_bytes(voice(150, 4.0))
    options = {"reference": str(folder / "reference.wav")} if adapter == "vllm-omni-speech" else {}
    table = {"adapter": adapter, "upstream": upstream.url, "options": options}
    faults: list[Fault] = []
    settings = Settings(folder=folder, models=read_models({"there/model": table}, faults))
    assert not faults, faults
    entry = models(settings)["there/model"].entry
    spec = spec_of(entry, settings)
    return replace(of_entry(entry, spec.engine), options=spec.options, parameters=dict(entry.defaults))


SPOKEN = [{"Start": 0, "End": 2.5, "Speaker": 0, "Content": "So, this is it."}]
ADAPTED: dict[str, list[Any]] = {
    "indextts-2.5": [""],
    "indextts-2.5-inference": [""],
    "moss-transcribe-diarize": ["[0.5][S01]Good morning everybody[2.5]"],
    "qwen3-asr": ["words of a piece"],
    "vibevoice-asr": [json.dumps(SPOKEN)],
    "diffusers-z-image-turbo": ["ZImagePipeline"],
    "diffusers-qwen-image": ["QwenImagePipeline"],
}


def adapted(name: str, folder: Path) -> Subject:
    """An engine of `contrib` or of diffusers, with the stand-ins of its model's package."""
    (folder / "config.yaml").write_text("version: 2.5\n")
    (folder / "answers.json").write_text(json.dumps(ADAPTED[name]))
    (folder / "model_index.json").write_text(json.dumps({"_class_name": ADAPTED[name][0]}))
    (folder / "reference.wav").write_bytes(voice(150, 4.0))
    folders = {"path": str(folder)} if name.startswith("diffusers") else {"model_dir": str(folder)}
    if name.startswith("indextts"):
        folders["reference"] = str(folder / "reference.wav")
    variables = {"PYTHONPATH": str(STUBS)}
    return subjects(name, options=folders, variables=variables, interpreter=sys.executable, **PATIENT)[name]


def of_entry(entry: EngineEntry, engine: str) -> Subject:
    """What the catalog knows of an engine."""
    return Subject(
        engine=engine,
        kind=entry.kind,
        honoured=entry.honoured,
        languages=entry.languages,
        role=entry.role,
        concurrency=entry.concurrency,
        metered=not entry.rerunnable,
        network=entry.network,
        **PATIENT,
    )


def faults(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """What is wrong, by the check's name."""
    return {one.check.__name__: one.fault for one in verdicts if one.fault}
