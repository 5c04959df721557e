"""Every engine with weights passes the conformance suite, as `tenuto models pull` leaves them."""

from dataclasses import replace
from pathlib import Path

import pytest

from engines.conformance.subjects import GRACE_S, REAL, faults, real
from servers.cores import ENGINE_THREADS
from tenuto.features.models.cache import default_cache
from tenuto.host.registry import ENTRIES
from tenuto_engine.conformance import examine, subjects

# A busy machine may take ten times as long.
pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(1200), pytest.mark.variant("model")]


@pytest.mark.variant("model", only="llama")
@pytest.mark.variant("model", only="kokoro")
@pytest.mark.parametrize("name", REAL)
def test_an_engine_with_its_weights_conforms(name: str, tmp_path: Path) -> None:
    """Loads, runs, stops, and leaves nothing behind, nor in its user's home; all without a network (P18)."""
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""}
    subject = real(name)
    faulty = faults(examine(replace(subject, variables=home)))

    assert {} == faulty
    assert not subject.network
    assert [] == [str(path) for path in tmp_path.rglob("*")]


@pytest.mark.variant("program")
def test_faster_whisper_conforms_with_the_base_model() -> None:
    options = {
        "model_dir": str(default_cache() / "whisper-base"),
        "device": "cpu",
        "compute_type": "int8",
        "threads": ENGINE_THREADS,
    }
    (subject,) = subjects("faster-whisper", options=options, grace_s=GRACE_S, run_timeout_s=250.0).values()

    assert {} == faults(examine(subject))


def test_no_engine_with_weights_is_left_out() -> None:
    offered = [entry for entry in ENTRIES if entry.installed and entry.engine]

    assert len(REAL) == len(offered)
