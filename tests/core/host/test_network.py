"""An engine that calls no server has no network, and its libraries report nothing."""

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenuto.config import RaySettings
from tenuto.host.child_host import ChildHost
from tenuto.host.host import HostResult
from tenuto_engine.network import NO_DOWNLOADS, NO_REPORTS, NONE

MakeHost = Callable[..., ChildHost]
DoRun = Callable[..., HostResult]
VARIABLES = (*NO_REPORTS, *NO_DOWNLOADS)
CLOSED = subprocess.run(
    [sys.executable, "-m", "tenuto_engine.network"], capture_output=True, text=True
).stdout
needs_seccomp = pytest.mark.skipif(CLOSED != NONE, reason=f"this kernel's network is {CLOSED}")


HOOK = """
import socket
opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
opened.connect(("127.0.0.1", 9))
"""


@pytest.fixture
def tried(
    make_in: Callable[[RaySettings | None], MakeHost], run: DoRun, tmp_path: Path
) -> Callable[..., dict[str, Any]]:
    """Give a function that has an engine try everything, and says what became of it."""

    def tried(*, network: bool) -> dict[str, Any]:
        (tmp_path / "sitecustomize.py").write_text(HOOK)
        host = make_in(None)(engine="caller:Caller", network=network, env={"PYTHONPATH": str(tmp_path)})
        with socket.create_server(("127.0.0.1", 0)) as server:
            reach = host.load()["network"]
            result = run(host, "", port=server.getsockname()[1], variables=VARIABLES)
        return {**result.metadata, "reach": reach}

    return tried


@needs_seccomp
def test_an_engine_that_calls_no_server_can_open_no_socket(
    tried: Callable[..., dict[str, Any]],
) -> None:
    """Not for UDP, by a thread or a program of its own, nor past the C library; Unix sockets it can. One that
    a library's hook opened as the interpreter started is of no use (P18)."""
    found = tried(network=False)

    allowed = {name for name, outcome in found["tried"].items() if outcome == "done"}
    others = {name: outcome for name, outcome in found["tried"].items() if name not in allowed}
    assert {"a pair", "a Unix socket"} == allowed
    special = {"a name": "not found", "a child": "failed", "one that was open": "ENOTSOCK"}
    assert special.items() <= others.items()
    assert {"EACCES"} == {outcome for name, outcome in others.items() if name not in special}
    assert NONE == found["reach"]


def test_an_engine_that_calls_a_server_reaches_it(
    tried: Callable[..., dict[str, Any]],
) -> None:
    """Its specification says so; the same calls succeed."""
    found = tried(network=True)

    assert {"a server here", "one that was open", "UDP", "TCP", "by number", "a child", "a thread"} <= {
        name for name, outcome in found["tried"].items() if outcome == "done"
    }
    assert "allowed" == found["reach"]


@pytest.mark.parametrize("network", [False, True])
def test_libraries_are_told_to_report_nothing(
    tried: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, network: bool
) -> None:
    """Whatever the operator's environment says; what downloads is stopped where it could not (P18)."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "theirs")
    seen = tried(network=network)["variables"]

    assert {**NO_REPORTS, **({} if network else NO_DOWNLOADS)}.items() <= seen.items()
    assert not network or "theirs" == seen["HF_HUB_OFFLINE"]


@pytest.mark.parametrize(
    "module", ["tenuto_engine_kit", "tenuto_kokoro", "tenuto_pictograms", "tenuto_supertonic"]
)
def test_whoever_loads_a_model_without_a_host_reports_nothing(tmp_path: Path, module: str) -> None:
    """A script that imports one of our engines: ONNX Runtime keeps no identity of the machine in its home."""
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", f"import {module}, onnxruntime"], env=home, check=True)

    assert [] == [str(path) for path in tmp_path.rglob("*")]
