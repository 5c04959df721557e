"""The commands and programs of the pages about the API run as they stand, with the variables of the guide."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from documentation.test_site import DOCS, blocks
from servers import recordings, voices
from servers.callers import ON_ONE_DATABASE, Caller
from servers.service import RunningService

PAGES = ("chat", "following", "images", "openai", "preview", "recognition", "speech", "voices", "webhooks")
MODELS = {
    "hexgrad/Kokoro-82M": "fake/speech",
    "tenuto/dual-recognition": recordings.DUAL,
    "tenuto/pictograms": "fake/image",
    "Qwen/Qwen2.5-Coder-0.5B-Instruct": "fake/chat",
}
"""What stands in for the models of the pages."""
CURL = """
curl() {  # A refusal is a failure; a stream that does not end is left after a while.
  local most; [ "$1" = -sN ] && most=5 || most=0
  command curl --fail-with-body --max-time "$most" "$@" || [ "$? $1" = "28 -sN" ]
}
"""
MESSAGE = """
from datetime import UTC, datetime
from standardwebhooks import Webhook
secret, body, now = "whsec_c2VjcmV0", "{}", datetime.now(UTC)
signature = Webhook(secret).sign("1", now, body)
signed = {"id": "1", "timestamp": str(int(now.timestamp())), "signature": signature}
headers = {f"webhook-{name}": value for name, value in signed.items()}
"""
"""What a receiver of webhooks has when it verifies a message."""


@ON_ONE_DATABASE
@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_page_runs(
    service: RunningService, caller: Caller, tmp_path: Path, page: str
) -> None:
    """Commands block by block, each with a job, a voice and an upload of its own; the programs as one."""
    (tmp_path / "talk.flac").write_bytes(recordings.recording(1))
    (tmp_path / "mine.wav").write_bytes(voices.recording())
    shown = blocks(DOCS / f"{page}.md")
    commands = [["bash", "-euo", "pipefail", "-c", CURL + code] for kind, code in shown if kind == "sh"]
    programs = "".join(code for kind, code in shown if kind == "python")
    if programs:
        commands.append([sys.executable, "-c", MESSAGE + programs])
    for command in commands:
        command[-1] = _replaced(command[-1])
        environment = os.environ | {"TENUTO_BASE_URL": service.url, "TENUTO_API_KEY": caller.key}
        environment |= _made(caller, command[-1])
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )

        assert 0 == done.returncode, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    assert commands
    assert not [code for kind, code in shown if code.startswith("curl ") and kind != "sh"]


@ON_ONE_DATABASE
def test_the_answers_of_the_pages_have_the_fields_of_real_ones(caller: Caller) -> None:
    """An upload's, and the list of segments, in their order."""
    upload = recordings.post(caller, recordings.recording()).json()
    job = caller.submit(stream=True)
    caller.wait(job)
    segments = caller.get(f"/v1/jobs/{job}/audio-segments").json()

    assert _names(upload) == _names(_answer("recognition"))
    assert _names(segments | {"data": segments["data"][:1]}) == _names(_answer("preview"))


def _made(caller: Caller, code: str) -> dict[str, str]:
    """Variables for the ids that a block names."""
    made = {}
    if "$JOB" in code or "$ARTIFACT" in code:
        made["JOB"] = caller.submit(stream=True)
        made["ARTIFACT"] = caller.wait(made["JOB"])["artifacts"][0]["id"]
        segments = caller.get(f"/v1/jobs/{made['JOB']}/audio-segments").json()
        made["SEGMENT"] = segments["data"][0]["segment_id"]
    if "$VOICE" in code:
        made["VOICE"] = voices.own_voice(caller)
    if "$INPUT" in code:
        made["INPUT"] = recordings.upload(caller)
    return made


def _replaced(code: str) -> str:
    for shown, real in MODELS.items():
        code = code.replace(shown, real)
    return code


def _answer(page: str) -> Any:
    """The JSON that a page shows."""
    [text] = [text for kind, text in blocks(DOCS / f"{page}.md") if kind == "json"]
    return json.loads(text)


def _names(value: Any) -> Any:
    """The names in a JSON value, in their order, without what they hold."""
    if isinstance(value, dict):
        return [(name, _names(inner)) for name, inner in value.items()]
    return [_names(item) for item in value] if isinstance(value, list) else None
