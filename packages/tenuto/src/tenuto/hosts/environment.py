"""What a host's process is started with: its command and its variables. Starts nothing itself."""

import fnmatch
import functools
import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tenuto_engine
from tenuto.hosts.host import EngineSpec

# An engine is code that we did not write: it sees these variables of ours and no other: no secret by chance.
INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("CUDA*", "NCCL_*", "HIP_*", "ROCR_*", "HSA_*", "PYTORCH_*"),
    # Not all of NVIDIA's: its keys begin so, too.
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_REQUIRE_*", "NVIDIA_TF32_OVERRIDE"),
    *("TORCH_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"),
    *("OMP_*", "MKL_*", "OPENBLAS_*", "KMP_*", "GOMP_*", "NUMEXPR_*"),
)

# Models bring threads of their own. numpy's beside them wait for each other in a loop: on a busy machine,
# small matrices then take ten times the processor time. An operator's own setting goes before ours.
DEFAULTS = {"OPENBLAS_NUM_THREADS": "1"}

# How a Ray pool is reached: addresses, certificates, its token. The driver's, never an engine's.
DRIVER_INHERITED = ("RAY_*",)

ENGINES = Path(__file__).parents[1] / "engines"
HOST = Path(tenuto_engine.__file__ or "").parent
KIT = "tenuto_engine_kit"
"""What engines of ours share. It is found where it is installed, and never imported here."""


def command(spec: EngineSpec, fd: int) -> list[str]:
    """Give the command line that starts the host, or its driver, with its end of the socket pair as `fd`."""
    ends = ["--fd", str(fd), "--parent", str(os.getpid())]
    if spec.ray is not None:
        return [sys.executable, "-u", "-m", "tenuto.hosts.ray_driver", *ends]
    return [*_far_end(spec, str(HOST), str(ENGINES), travelling(spec)), *ends]


def variables(spec: EngineSpec, ours: Mapping[str, str]) -> dict[str, str]:
    """Give the host's environment: the few of ours that it inherits, and the specification's own."""
    if spec.ray is not None:
        return _allowed(ours, (*INHERITED, *DRIVER_INHERITED))
    return {**DEFAULTS, **_allowed(ours, INHERITED), **spec.env}


def request(spec: EngineSpec, left_s: float) -> dict[str, Any]:
    """Give the message that asks for the engine; a driver is told in it where and how to start one."""
    load = {"type": "load", "options": spec.options}
    if spec.ray is None:
        return load
    own = {} if spec.path or spec.installed else {"engines": str(ENGINES)}
    beside = travelling(spec)
    plan = {
        **asdict(spec.ray),
        "timeout_s": spec.load_timeout_s,
        "left_s": left_s,
        # The archive's folders take the place of {code}.
        "folders": {**own, **beside},
        "arguments": _far_end(
            spec, "{code}/tenuto_engine", "{code}/engines", {name: "{code}/" + name for name in beside}
        ),
        "defaults": DEFAULTS,
        "variables": dict(spec.env),
        "patterns": list(INHERITED),
    }
    return {**load, "ray": plan}


def travelling(spec: EngineSpec) -> dict[str, str]:
    """The packages that go along with an engine by name, each with its folder: its own, and the kit.

    So an interpreter needs the model's libraries alone.
    """
    folders = {} if spec.path else {KIT: kit_folder()}
    if spec.folder:
        folders[spec.engine.partition(":")[0].partition(".")[0]] = spec.folder
    return {name: folder for name, folder in folders.items() if folder}


@functools.cache
def kit_folder() -> str:
    """Where the kit is installed beside us; "" if it is not."""
    kit = importlib.util.find_spec(KIT)
    return next(iter(kit.submodule_search_locations or ()), "") if kit is not None else ""


def _far_end(spec: EngineSpec, host: str, engines: str, packages: Mapping[str, str]) -> list[str]:
    place = ["--path", spec.path] if spec.path else [] if spec.installed else ["--package", engines]
    brought = [text for name, folder in packages.items() for text in ("--with", f"{name}={folder}")]
    # -u: what the engine prints is there when it crashes.
    return [spec.interpreter, "-u", host, spec.engine, *place, *brought]


def _allowed(ours: Mapping[str, str], patterns: tuple[str, ...]) -> dict[str, str]:
    return {
        name: text
        for name, text in ours.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
