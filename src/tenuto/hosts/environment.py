"""What a host's process is started with: its command and its variables. Starts nothing itself."""

import fnmatch
import os
from collections.abc import Mapping
from pathlib import Path

import tenuto_host
from tenuto.hosts.host import EngineSpec

# An engine is code that we did not write: it sees these variables of ours and no other: no secret by chance.
INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("CUDA*", "NVIDIA_*", "NCCL_*", "HIP_*", "ROCR_*", "HSA_*", "PYTORCH_*"),
    *("TORCH_HOME", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"),
    *("OMP_*", "MKL_*", "OPENBLAS_*", "KMP_*", "GOMP_*", "NUMEXPR_*"),
)

# Models bring threads of their own. numpy's beside them wait for each other in a loop: on a busy machine,
# small matrices then take ten times the processor time. An operator's own setting goes before ours.
DEFAULTS = {"OPENBLAS_NUM_THREADS": "1"}

ENGINES = Path(__file__).parents[1] / "engines"
HOST = Path(tenuto_host.__file__ or "").parent


def command(spec: EngineSpec, fd: int) -> list[str]:
    """Give the command line that starts the host with its end of the socket pair as `fd`."""
    place = ["--path", spec.path] if spec.path else [] if spec.installed else ["--package", str(ENGINES)]
    # -u: what the engine prints is there when it crashes.
    start = [spec.interpreter, "-u", str(HOST), spec.engine]
    return [*start, "--fd", str(fd), "--parent", str(os.getpid()), *place]


def variables(spec: EngineSpec, ours: Mapping[str, str]) -> dict[str, str]:
    """Give the host's environment: the few of ours that it inherits, and the specification's own."""
    allowed = {name: text for name, text in ours.items() if _inherited(name)}
    return {**DEFAULTS, **allowed, **spec.env}


def _inherited(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in INHERITED)
