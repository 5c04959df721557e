"""Engines that an operator adds: a package of somebody else's, models of other servers, through `serve`."""

import hashlib
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from servers.media_upstream import KEY, MediaUpstream
from servers.recordings import long_recording, recording
from servers.service import RunningService
from tenuto import config
from tenuto.features.decoding.wav import read_pcm16_wav
from tenuto.features.image.png import read_png
from tenuto.host import manifests
from tenuto.kind.model import models
from tenuto.worker.engines import missing_here

EXAMPLE = Path(__file__).parents[2] / "examples" / "engine"
UNITS = 43 + 7 + 17 + 7 + 29
"""The length of "hold the note" in dots of 60 ms."""
SETTINGS = """
[models."example/morse"]
adapter = "morse"
interpreter = "{interpreter}"

[models."there/voice"]
adapter = "openai-speech"
upstream = "{url}"
upstream_model = "tts-1"
upstream_key_variable = "THERE_KEY"

[models."there/pictures"]
adapter = "openai-image"
upstream = "{url}"
upstream_key_file = "{key_file}"
metered = true
price = "0.05"

[models."there/whisper"]
adapter = "openai-transcription"
upstream = "{url}"
upstream_key_variable = "THERE_KEY"

[models."there/paid-whisper"]
adapter = "openai-transcription"
upstream = "{url}"
upstream_key_variable = "THERE_KEY"
metered = true

[models."acme/dual"]
composed_of = ["fake/segment-text", "there/whisper"]
price = "0.06"
"""


@dataclass(frozen=True)
class Served:
    """A service with all of these, and the server behind some of them."""

    service: RunningService
    upstream: MediaUpstream
    environment: Path
    """In which the package is installed."""

    def job(self, model: str, parameters: dict[str, Any], **more: Any) -> Any:
        """A job's operation at its end."""
        body = {"model": model, "parameters": parameters, **more}
        with self.service.client() as client:
            answer = client.post("/v1/jobs", json=body, headers={"Idempotency-Key": str(uuid.uuid4())})
        assert 202 == answer.status_code, answer.text
        return self.service.wait(answer.json()["id"])

    def recognised(self, model: str, content: bytes) -> Any:
        """The operation of a recording's job at its end."""
        headers = {
            "Content-Type": "audio/flac",
            "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest(),
        }
        with self.service.client() as client:
            answer = client.post("/v1/input-artifacts", content=content, headers=headers)
        uploaded = answer.json()["artifact"]["id"]
        return self.job(model, {"language": "zh"}, input_artifact_ids=[uploaded])

    def content(self, operation: Any) -> bytes:
        assert "succeeded" == operation["state"], operation
        with self.service.client() as client:
            return client.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content").content

    def read(self, path: str) -> Any:
        with self.service.client() as client:
            return client.get(path).json()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("adapters")
    upstream = MediaUpstream(key=KEY)
    (folder / "key").write_text(f"{KEY}\n")
    environment = installed(folder)
    interpreter = environment / "bin" / "python"
    settings = SETTINGS.format(interpreter=interpreter, url=upstream.url, key_file=folder / "key")
    (folder / "tenuto.toml").write_text(settings)
    variables = {"TENUTO_CONFIG": str(folder / "tenuto.toml"), "THERE_KEY": KEY}
    service = RunningService(folder / "data", variables=variables)
    service.start()
    service.key = service.make_key(credit="100")
    yield Served(service, upstream, environment)
    service.stop()
    upstream.close()


def installed(folder: Path) -> Path:
    """The example, built and installed into an empty environment as its README says; no network."""
    source, environment = folder / "engine", folder / "environment"
    copytree(EXAMPLE, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    offline = ["--no-deps", "--no-index"]
    steps = [
        [sys.executable, "-m", "venv", "--without-pip", str(environment)],
        [*pip, "wheel", *offline, "--no-build-isolation", "-w", str(folder), str(source)],
        [*pip, "--python", str(environment), "install", *offline, "tenuto-morse", "-f", str(folder)],
    ]
    for step in steps:
        subprocess.run(step, check=True, capture_output=True, timeout=120)
    return environment


def test_an_engine_of_somebody_else_is_installed_and_speaks(served: Served) -> None:
    """A package with an entry point and a manifest, of 60 lines, that Tenuto's own Python has never seen."""
    operation = served.job("example/morse", {"text": "Hold the note", "stream": True, "duration_factor": 2})
    segments = served.read(f"/v1/jobs/{operation['id']}/audio-segments")["data"]
    [listed] = [model for model in served.read("/v1/models")["data"] if model["id"] == "example/morse"]
    lines = (EXAMPLE / "src" / "tenuto_morse" / "__init__.py").read_text("utf-8").splitlines()

    assert UNITS * 2 * 60 == read_pcm16_wav(served.content(operation)).duration_ms
    assert 3 == len(segments)
    assert (["en"], True, "speech") == (listed["languages"], listed["callable"], listed["kind"])
    assert ["text", "stream", "duration_factor"] == listed["honoured_parameters"]
    assert find_spec("tenuto_morse") is None
    assert len(lines) <= 60


def test_a_machine_without_the_engines_python_knows_the_model_all_the_same(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package beside Tenuto, never imported, tells the API what the model is; a worker offers it not."""
    [packages] = served.environment.glob("lib/python*/site-packages")
    table = '[models."a/b"]\nadapter = "morse"\ninterpreter = "/nowhere/python"\n'
    (tmp_path / "tenuto.toml").write_text(table)
    settings = config.load({}, file=tmp_path / "tenuto.toml")
    monkeypatch.syspath_prepend(packages)
    manifests.here.cache_clear()
    try:
        model = models(settings)["a/b"]
    finally:
        manifests.here.cache_clear()

    assert ("tenuto_morse:Morse", True) == (model.entry.engine, model.entry.installed)
    assert ["/nowhere/python"] == missing_here(model, settings)
    assert "tenuto_morse" not in sys.modules


def test_an_image_job_that_charges_is_drawn_once_and_charged(served: Served) -> None:
    """With the key in a file; the run's id goes along as idempotency key; 0.05 CNY (R146)."""
    before = len(served.upstream.asked)
    operation = served.job("there/pictures", {"prompt": "a crane", "width": 512, "height": 512})
    png = read_png(served.content(operation))
    asked = served.upstream.asked[before:]

    assert (512, 512, "0.050000") == (png.width, png.height, operation["billing"]["charged"])
    assert 1 == len(asked)
    assert (f"Bearer {KEY}", "attempt_") == (asked[0].key, (asked[0].idempotency_key or "")[:8])


def test_a_doubtful_call_that_charges_waits_for_the_operator(served: Served) -> None:
    """The answer is lost: recovery_required, the hold kept, and nothing is asked again (P10)."""
    before = len(served.upstream.asked)
    served.upstream.faults.append("close")
    operation = served.job("there/pictures", {"prompt": "a crane"})
    time.sleep(1)

    assert ("recovery_required", "0.050000") == (operation["state"], operation["billing"]["held"])
    assert 1 == len(served.upstream.asked) - before


def test_a_model_is_composed_of_any_two_that_write_the_transcripts(served: Served) -> None:
    """The first here, the second at another server, one result of both, at a price of its own (R136)."""
    operation = served.recognised("acme/dual", recording())
    engines = json.loads(served.content(operation))["engines"]

    assert {"segment_text": "fake/segment-text", "word_timestamps": "there/whisper"} == {
        role: said["model_id"] for role, said in engines.items()
    }
    assert ["word 0", "word 1"] == [segment["text"] for segment in engines["word_timestamps"]["segments"]]


def test_each_chunk_of_a_recording_is_a_call_of_its_own(served: Served) -> None:
    """A server that answers a repeated key with its first answer would give one chunk's text for all."""
    before = len(served.upstream.asked)
    served.content(served.recognised("there/whisper", long_recording(11)[0]))
    keys = [asked.idempotency_key for asked in served.upstream.asked[before:]]

    assert len(keys) >= 2
    assert len({*keys}) == len(keys)


def test_a_refusal_behind_a_charged_chunk_waits_for_the_operator(served: Served) -> None:
    """The chunks that were paid for are kept, and used if the operator has it run again; what is refused at
    once fails."""
    content, before = long_recording(11)[0], len(served.upstream.asked)
    served.upstream.faults.append("busy=1")
    at_once = served.recognised("there/paid-whisper", content)
    served.upstream.faults += ["", "busy=1"]
    later = served.recognised("there/paid-whisper", content)
    waits = later["state"]
    served.service.command("admin", "recover", "requeue", later["id"])
    resumed = served.service.wait(later["id"])

    assert ("failed", "engine_failed") == (at_once["state"], at_once["error"]["code"])
    assert ("recovery_required", "succeeded") == (waits, resumed["state"])
    assert 1 + 2 + 1 == len(served.upstream.asked) - before
