"""OpenAI's client for Node.js, and what wyoming_openai asks for first.

LiteLLM and wyoming_openai themselves are run by test_contract_real.py.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from servers.callers import ON_ONE_DATABASE, Operator

pytestmark = [ON_ONE_DATABASE, pytest.mark.variant("program")]

SCRIPT = Path(__file__).parents[1] / "browser" / "openai.mjs"


@pytest.mark.parametrize("path", ["/v1/test", "/v1/readyz", "/health"])
def test_wyoming_takes_us_for_no_other_server(operator: Operator, path: str) -> None:
    """It asks for these to recognise Kokoro-FastAPI, LocalAI and Speaches."""
    assert 404 == operator.http.get(path).status_code


def test_openais_client_for_node_speaks_draws_lists_and_chats(paid: Operator) -> None:
    """AnythingLLM and others use it; it runs as they run it, on the package of npm's registry."""
    caller = paid.caller(credit="10")
    base = str(caller.http.base_url).rstrip("/")
    done = subprocess.run(
        ["node", str(SCRIPT)],
        env=os.environ | {"ADDRESS": f"{base}/v1", "KEY": caller.key},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    assert 1 == len(set(told["wav"]))
    assert ["audio/mpeg", "fff3"] == told["mp3"]
    assert told["streamedBytes"] > 0
    assert ["speech.audio.delta", "speech.audio.done"] == [told["events"][0], told["events"][-1]]
    assert ["PNG", "PNG"] == told["images"]
    assert {"fake/speech", "there/chat"} <= set(told["models"])
    assert ("fake/speech", "assistant") == (told["model"], told["chat"])
    assert [400, "invalid_request", "model"] == told["refused"]
