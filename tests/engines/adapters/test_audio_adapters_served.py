"""Adapters as an operator has them: settings in a file, jobs over HTTP, the models' packages stood in for."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from engines.adapters.adapted import tone, voice
from servers.callers import Caller, Operator
from servers.recordings import encoded, recognise, result, texts
from servers.service import RunningService
from tenuto.features.decoding.wav import read_pcm16_wav

SPEECH, DUAL = "IndexTeam/IndexTTS-2.5", "acme/dual"
FIRST, SECOND = "OpenMOSS-Team/MOSS-Transcribe-Diarize", "Qwen/Qwen3-ASR-1.7B"
SETTINGS = """
[models."IndexTeam/IndexTTS-2.5"]
adapter = "indextts-2.5"
accept_licence = "bilibili-indextts-2.5"
interpreter = "{python}"
revision = "2.5-test"
options = {{ model_dir = "{folder}/speech", reference = "{folder}/reference.wav" }}

[models."OpenMOSS-Team/MOSS-Transcribe-Diarize"]
adapter = "moss-transcribe-diarize"
interpreter = "{python}"
options = {{ model_dir = "{folder}/first", question = "en" }}

[models."Qwen/Qwen3-ASR-1.7B"]
adapter = "qwen3-asr"
interpreter = "{python}"
options = {{ model_dir = "{folder}/second" }}

[models."acme/dual"]
composed_of = ["OpenMOSS-Team/MOSS-Transcribe-Diarize", "Qwen/Qwen3-ASR-1.7B"]
"""
WHOLE = "[0.5][S01]Good morning everybody and welcome[4.5][7.5][S02]Thank you for the invitation[11.5]"


@dataclass
class Served:
    """A caller of the service, and the folders of the models."""

    caller: Caller
    folder: Path

    def answers(self, model: str, *answers: Any) -> None:
        (self.folder / model / "answers.json").write_text(json.dumps(answers))

    def recognised(self, model: str = DUAL) -> Any:
        """The result of a job on twelve seconds in which two people talk."""
        audio = bytes(8000) + tone(300, 4) + bytes(2 * 16_000 * 3) + tone(400, 4) + bytes(16_000)
        job_id = recognise(self.caller, encoded(np.frombuffer(audio, "<i2")), model=model, language="en")
        return result(self.caller, self.caller.wait(job_id))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, interpreter: str) -> Iterator[Served]:
    """`tenuto serve` with a settings file that names three adapters and what is composed of two of them."""
    folder = tmp_path_factory.mktemp("adapters")
    for name in ("speech", "first", "second"):
        (folder / name).mkdir()
    (folder / "speech" / "config.yaml").write_text("version: 2.5\n")
    (folder / "reference.wav").write_bytes(voice(150))
    (folder / "tenuto.toml").write_text(SETTINGS.format(python=interpreter, folder=folder))
    config = {"TENUTO_CONFIG": str(folder / "tenuto.toml"), "TENUTO_REQUESTS_PER_SECOND": "0"}
    running = RunningService(folder / "data", engines="real", variables=config)
    running.start()
    operator = Operator(running)
    yield Served(operator.caller(credit="100"), folder)
    operator.close()
    running.stop()


def test_a_voice_of_ones_own_speaks_by_indextts(served: Served) -> None:
    """Uploaded, bound, streamed and verified as with any model; the result names the model (R100, R107)."""
    caller = served.caller
    voice_id = _voice(caller)
    job_id = caller.submit(
        "One sentence. And another.",
        model=SPEECH,
        lang="en",
        voice_id=voice_id,
        stream=True,
        do_sample=False,
        max_text_tokens_per_segment=20,
    )
    operation = caller.wait(job_id)
    artifact = operation["artifacts"][0]
    content = caller.get(f"/v1/artifacts/{artifact['id']}/content").content
    segments = caller.get(f"/v1/jobs/{job_id}/audio-segments").json()["data"]
    frames = [
        bytes(read_pcm16_wav(_segment(caller, job_id, one["segment_id"]).content).frames) for one in segments
    ]

    assert (SPEECH, "2.5-test") == tuple(artifact["metadata"][key] for key in ("model_id", "model_revision"))
    assert 2 == len(frames)
    assert bytes(read_pcm16_wav(content).frames) == b"".join(frames)


def test_two_models_of_others_recognise_together(served: Served) -> None:
    """Two transcripts in one result, each with its model; nothing is doubtful (R123, R125, R128)."""
    served.answers("first", WHOLE)
    served.answers("second", "Good morning everybody and welcome. Thank you for the invitation.")
    shown = served.recognised()

    assert [FIRST, SECOND] == [shown["engines"][role]["model_id"] for role in shown["engines"]]
    assert ["Good morning everybody and welcome", "Thank you for the invitation"] == texts(shown)
    assert ["S01", "S02"] == [one["speaker"] for one in shown["engines"]["segment_text"]["segments"]]
    assert [] == shown["warnings"]


def _voice(caller: Caller) -> str:
    content = voice(440)
    answer = caller.request(
        "POST",
        "/v1/voices",
        headers={
            "Content-Type": "audio/wav",
            "X-Service-Voice-Name": "Mine",
            "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest(),
        },
        content=content,
    )
    voice_id: str = answer.json()["voice_id"]
    return voice_id


def _segment(caller: Caller, job_id: str, segment_id: str) -> httpx2.Response:
    return caller.get(f"/v1/jobs/{job_id}/audio-segments/{segment_id}/content")
