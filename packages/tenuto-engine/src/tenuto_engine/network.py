"""What keeps a process that loads models from calling anybody, though its libraries would.

Libraries report how they are used, ask whether there is a newer one, and download what they lack. Variables
stop those that we know; a filter of system calls stops the others, whatever language they are written in.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import MutableMapping
from pathlib import Path

NO_REPORTS = {
    # ONNX Runtime from 1.29 on: a lasting id of the machine, its processor, the model's name, runs.
    "ORT_DISABLE_TELEMETRY": "1",
    # What several libraries honour, huggingface_hub and vLLM among them.
    "DO_NOT_TRACK": "1",
    # huggingface_hub, and by it transformers and diffusers.
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "DISABLE_TELEMETRY": "1",
    # What packages of models bring along.
    "GRADIO_ANALYTICS_ENABLED": "False",
    "NO_ALBUMENTATIONS_UPDATE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
"""Set in every process that loads a model or joins a pool, whatever the operator's environment says."""
NO_DOWNLOADS = {
    # What is not on this machine is missing, and said at once.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    # Names are otherwise looked up by a daemon, which can be reached without a network.
    "SYSTEMD_NSS_RESOLVE_NETWORK": "0",
}
"""Set besides in a process without a network."""

NONE, ALLOWED = "none", "allowed"
# Numbers on x86-64 and on AArch64.
_SOCKET, _SOCKETPAIR, _IO_URING_SETUP = (41, 198), (53, 199), (425, 425)
_UNIX = 1
# On x86-64, the same calls have other numbers from here on.
_SECOND_FORM = 0x40000000


def silence(variables: MutableMapping[str, str], *, has_network: bool = True) -> None:
    """Have libraries report nothing; without a network, download nothing either."""
    variables.update(NO_REPORTS if has_network else {**NO_REPORTS, **NO_DOWNLOADS})


def close() -> str:
    """Let this process, and all that it starts, open no socket but Unix ones, from now on and for good.

    GPU drivers and `multiprocessing` need those. Returns `NONE`, or why the kernel does not do it.
    """
    try:
        from tenuto_engine import seccomp

        which = seccomp.column()
        refuse = seccomp.refuse(errno.EACCES)
        rules = [
            (seccomp.AT_LEAST, 0, 1, _SECOND_FORM),
            refuse,
            # It opens sockets by itself, past all filters.
            (seccomp.EQUAL, 0, 1, _IO_URING_SETUP[which]),
            refuse,
            (seccomp.EQUAL, 2, 0, _SOCKET[which]),
            (seccomp.EQUAL, 1, 0, _SOCKETPAIR[which]),
            seccomp.ALLOW,
            (seccomp.LOAD, 0, 0, seccomp.FIRST_ARGUMENT_AT),
            (seccomp.EQUAL, 0, 1, _UNIX),
            seccomp.ALLOW,
            refuse,
        ]
        seccomp.install(rules, refuse, is_trusted=True)
        _drop_opened()
    except (ImportError, AttributeError, OSError) as error:
        # An interpreter without ctypes, or a kernel without seccomp.
        return f"not closed: {error}"
    return NONE


def _drop_opened() -> None:
    """End what was opened before: an interpreter runs hooks of installed libraries as it starts.

    The descriptors stay, for nothing: another file with the same number would be taken for a socket.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for link in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):
            kind, descriptor = str(link.readlink()), int(link.name)
            if kind == "anon_inode:[io_uring]" or (kind.startswith("socket:") and not _is_unix(descriptor)):
                os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def _is_unix(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as opened:
        return opened.family == socket.AF_UNIX


if __name__ == "__main__":
    silence(os.environ, has_network=False)
    sys.stdout.write(close())
