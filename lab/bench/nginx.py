"""A reference for downloads: nginx with one worker that sends files with sendfile."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.bench.client import TIMEOUT_S

_NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; sendfile on; tcp_nopush on; default_type audio/flac;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


def find() -> str | None:
    """Where it is installed, or None."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@contextmanager
def served(nginx: str, file: Path) -> Iterator[int]:
    """An nginx with one worker that sends the file; gives its port."""
    with tempfile.TemporaryDirectory(prefix="tenuto-bench-") as folder:
        port = _free_port()
        configuration = Path(folder, "nginx.conf")
        configuration.write_text(_NGINX.format(folder=folder, port=port, root=file.parent))
        with Path(folder, "log").open("w") as log:
            process = subprocess.Popen([nginx, "-c", configuration], stdout=log, stderr=log)
        try:
            _await(port, process)
            yield port
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _await(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + TIMEOUT_S
    while True:
        assert process.poll() is None and time.monotonic() < until, "nginx did not start"
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            time.sleep(0.02)
        else:
            return
