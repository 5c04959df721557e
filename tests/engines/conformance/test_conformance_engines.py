"""Every engine of this repository passes the conformance suite: the fakes, and those against stand-ins."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest import SkipTest

import pytest

from engines.conformance.subjects import ADAPTED, FAKES, adapted, fake, faults, remote
from servers.media_upstream import MediaUpstream
from servers.processes import until
from servers.speed import HANG_S
from tenuto.host.manifests import adapters
from tenuto.host.registry import ENTRIES
from tenuto_engine.conformance import CHECKS, Trial, checks, examine
from tenuto_engine.conformance.process import EngineProcess

REMOTE = ("openai-image", "openai-speech", "openai-transcription", "vllm-omni-image", "vllm-omni-speech")
OTHER_MODELS = {"diffusers", "diffusers-flux-dev", "diffusers-flux-schnell", "llama-gguf"}
"""The same class as another that is examined, with other defaults."""
ELSEWHERE = {"faster-whisper", "supertonic"}
"""With weights, in the file beside this one; with tiny graphs, in `test_speech_supertonic.py`."""


@pytest.mark.parametrize("name", FAKES)
def test_a_fake_conforms(name: str) -> None:
    assert {} == faults(examine(fake(name)))


@pytest.mark.parametrize("name", ADAPTED)
def test_an_engine_whose_package_is_stood_in_for_conforms(name: str, tmp_path: Path) -> None:
    """What could not be run with its model here keeps to the rules all the same."""
    assert {} == faults(examine(adapted(name, tmp_path)))


@pytest.mark.parametrize("name", REMOTE)
def test_an_engine_that_calls_a_server_conforms(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is under way is broken off when its run is cancelled, or the service goes away."""
    upstream = MediaUpstream(omni=name.startswith("vllm"))
    has_reported = EngineProcess.has_reported

    def is_asked(process: EngineProcess, run_id: str, timeout_s: float) -> bool:
        """Where the server is to hang, the run is stopped once the server has been asked, not sooner."""
        if upstream.faults:
            until(lambda: not upstream.faults, HANG_S, "the server is asked")
            return True
        return has_reported(process, run_id, timeout_s)

    monkeypatch.setattr(EngineProcess, "has_reported", is_asked)
    with Trial(replace(remote(name, upstream, tmp_path), grace_s=HANG_S)) as trial:
        for check in CHECKS:
            trial.process  # noqa: B018, loaded before the server hangs
            if check in (checks.stops_when_cancelled, checks.stops_in_a_run):
                upstream.faults.append("hang=600")
            with suppress(SkipTest):
                check(trial)
    upstream.close()


def test_no_engine_is_left_out() -> None:
    ours = {entry.model for entry in ENTRIES if entry.fake and entry.engine}

    assert set(FAKES) == ours
    assert set(adapters()) == {*ADAPTED, *REMOTE, *OTHER_MODELS, *ELSEWHERE}
