"""The proxies of deploy/ as processes before a real service: their files as shipped, on ports of a test.

Only addresses, ports and places of files are put in; no limit and no header is.
"""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2

from servers.ports import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
CADDY = Path(sys.executable).with_name("caddy")
READY_S = 20.0


class Missing(Exception):
    """A program that is not here, by its name."""


@dataclass
class Proxy:
    """A running proxy: a site of its own over HTTPS, and a path of another site over HTTP."""

    process: "subprocess.Popen[bytes]"
    site_port: int
    path_port: int
    certificate: Path

    @property
    def site(self) -> str:
        return f"https://127.0.0.1:{self.site_port}"

    @property
    def below(self) -> str:
        return f"http://127.0.0.1:{self.path_port}/tenuto"

    def trust(self) -> ssl.SSLContext:
        """Trusts this proxy's certificate alone."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def client(self, *, source: str = "127.0.0.1", key: str | None = None) -> httpx2.Client:
        """A client of the site, from an address of this machine."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        transport = httpx2.HTTPTransport(verify=self.trust(), local_address=source)
        return httpx2.Client(base_url=self.site, headers=headers, transport=transport, timeout=120)

    def connected(self) -> ssl.SSLSocket:
        """A connection to the site, for what no client would send."""
        plain = socket.create_connection(("127.0.0.1", self.site_port))
        return self.trust().wrap_socket(plain, server_hostname="127.0.0.1")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def start_nginx(folder: Path, site: int, below: int) -> Proxy:
    """nginx before the service on port `site`, and before the one on `below` that is below a path."""
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        raise Missing("no nginx here; install Debian's package nginx")
    certificate, key = _certificate(folder)
    ports = free_port(), free_port(), free_port()
    (folder / "tenuto.conf").write_text(
        _put_in(
            DEPLOY / "nginx" / "tenuto.conf",
            {
                "server 127.0.0.1:8080;": f"server 127.0.0.1:{site};",
                "listen 80;": f"listen 127.0.0.1:{ports[2]};",
                "listen 443 ssl;": f"listen 127.0.0.1:{ports[0]} ssl;",
                "/etc/ssl/tenuto.pem": str(certificate),
                "/etc/ssl/tenuto.key": str(key),
                "/etc/nginx/tenuto.proxy": str(DEPLOY / "nginx" / "tenuto.proxy"),
            },
        )
    )
    (folder / "below.conf").write_text(
        _put_in(
            DEPLOY / "nginx" / "below-a-path.conf",
            {
                "http://tenuto;": f"http://127.0.0.1:{below};",
                "/etc/nginx/tenuto.proxy": str(DEPLOY / "nginx" / "tenuto.proxy"),
            },
        )
    )
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log warn;"
        f" events {{}} http {{ access_log off; {temporary} include {folder}/tenuto.conf;"
        f" server {{ listen 127.0.0.1:{ports[1]}; include {folder}/below.conf; }} }}"
    )
    command = [program, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    return _started(subprocess.Popen(command), ports[0], ports[1], certificate)


def start_caddy(folder: Path, site: int, below: int) -> Proxy:
    """Caddy, in the same way."""
    if not CADDY.exists():
        raise Missing("no caddy here; it is in the test lock where there is a build of it")
    certificate, key = _certificate(folder)
    ports = free_port(), free_port()
    whole = _put_in(
        DEPLOY / "caddy" / "Caddyfile",
        {
            "{\n\tservers {": "{\n\tadmin off\n\tauto_https disable_redirects\n\tservers {",
            "{$TENUTO_SITE:tenuto.example.com} {": "{$TENUTO_SITE} {\n"
            f"\tbind 127.0.0.1\n\ttls {certificate} {key}\n",
        },
    )
    part = _put_in(
        DEPLOY / "caddy" / "below-a-path.caddy",
        {"{$TENUTO_UPSTREAM:127.0.0.1:8080}": f"127.0.0.1:{below}"},
    )
    whole += f"\nhttp://127.0.0.1:{ports[1]} {{\n\tbind 127.0.0.1\n{part}\n}}\n"
    (folder / "Caddyfile").write_text(whole)
    own = {
        "TENUTO_SITE": f"https://127.0.0.1:{ports[0]}",
        "TENUTO_UPSTREAM": f"127.0.0.1:{site}",
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(CADDY), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")],
            env=dict(os.environ) | own,
            stdout=log,
            stderr=log,
        )
    return _started(process, ports[0], ports[1], certificate)


Start = Callable[[Path, int, int], Proxy]
PROXIES: dict[str, Start] = {"nginx": start_nginx, "caddy": start_caddy}


def _put_in(file: Path, places: dict[str, str]) -> str:
    text = file.read_text("utf-8")
    for shipped, here in places.items():
        assert shipped in text, f"{file.name} has no {shipped!r}"
        text = text.replace(shipped, here)
    return text


def _certificate(folder: Path) -> tuple[Path, Path]:
    program = shutil.which("openssl")
    if program is None:
        raise Missing("no openssl here")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *(program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key


def _started(process: "subprocess.Popen[bytes]", site: int, below: int, certificate: Path) -> Proxy:
    proxy = Proxy(process, site, below, certificate)
    until = time.monotonic() + READY_S
    while True:
        assert process.poll() is None, "the proxy has ended"
        try:
            proxy.connected().close()
            return proxy
        except OSError:
            pass
        assert time.monotonic() < until, "the proxy does not answer"
        time.sleep(0.05)
