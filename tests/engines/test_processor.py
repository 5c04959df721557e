"""Engines whose libraries are not built for this machine: their models are not offered, all others are."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from servers.service import TENUTO
from tenuto.config import Settings
from tenuto.features.chat.embedded import EmbeddedChat
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec, HostNotReady
from tenuto.kind.model import models
from tenuto.worker.abilities import abilities_of
from tenuto_engine import processor

CHAT = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
BUILT_FOR = {"x86_64": ("avx2", "fma")}
OLD = "processor\t: 0\nflags\t\t: fpu sse4_2 avx fma\n\nprocessor\t: 1\nflags\t\t: fpu sse4_2 avx fma\n"
ARM = "processor\t: 0\nFeatures\t: fp asimd\n"
FAULT = "its libraries are built for x86_64, and this machine is aarch64"


@pytest.mark.parametrize(
    ("machine", "cpuinfo", "fault"),
    [
        ("x86_64", OLD, "its libraries need a processor with AVX2, which this machine's lacks"),
        ("aarch64", ARM, FAULT),
        ("x86_64", OLD.replace("avx ", "avx avx2 "), ""),
        ("x86_64", "nothing that can be read", ""),
    ],
)
def test_a_processor_that_libraries_are_not_built_for_is_named(
    machine: str, cpuinfo: str, fault: str
) -> None:
    assert fault == processor.fault(BUILT_FOR, machine=machine, cpuinfo=cpuinfo)
    assert "" == processor.fault({}, machine=machine, cpuinfo=cpuinfo)


@pytest.fixture
def on_arm(tmp_path: Path) -> Callable[..., str]:
    """A function that gives what a program prints which takes this machine for an ARM one."""
    (tmp_path / "sitecustomize.py").write_text("import platform\nplatform.machine = lambda: 'aarch64'\n")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
    own = {"PYTHONPATH": str(tmp_path), "TENUTO_DATA": str(tmp_path / "data")}
    own["TENUTO_CACHE"] = str(tmp_path / "cache")

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], env=inherited | own, capture_output=True, text=True, timeout=120
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout

    return run


def test_doctor_says_what_this_machine_cannot_run(on_arm: Callable[..., str]) -> None:
    lines = on_arm(TENUTO, "admin", "doctor").splitlines()
    (chat,) = (line for line in lines if CHAT in line)
    kokoro = [line for line in lines if "Kokoro" in line and line.startswith("FAIL")]

    assert f"ok    {CHAT}: is not offered by this machine: {FAULT} → a model of another server" == chat
    assert ["tenuto models pull"] == [line.rpartition(" → ")[2] for line in kokoro]


def test_a_model_that_this_machine_cannot_run_is_left_to_others(tmp_path: Path) -> None:
    """By a worker, which offers the rest, and by a chat model's host, which is not started."""
    settings = Settings(folder=tmp_path, engines="fake")
    offered = {
        name: replace(model, entry=replace(model.entry, processors={"sparc": ()}))
        if name in ("fake/speech", "fake/chat")
        else model
        for name, model in models(settings).items()
    }
    jobs = [name for name, model in offered.items() if model.interface == "jobs"]
    reasons = {one.model: one.reason for one in abilities_of(settings, offered, jobs)}
    chat = EmbeddedChat(offered["fake/chat"], settings)

    assert str(reasons.pop("fake/speech")).startswith("its libraries are built for sparc")
    assert {None} == set(reasons.values())
    assert str(chat.reason()).startswith("its libraries are built for sparc")


def test_a_host_that_meets_an_unknown_instruction_says_so(tmp_path: Path) -> None:
    """Libraries that nobody has examined end their process with SIGILL: one sentence, and no traceback."""
    (tmp_path / "old.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n")
    host = ChildHost(EngineSpec("old:Engine", sys.executable, path=str(tmp_path)))
    with pytest.raises(HostNotReady) as raised:
        host.load()
    host.close()

    assert raised.value.message.endswith(
        "ended by SIGILL: its libraries use instructions that this machine's processor lacks"
    )
