"""Whether a database's URL makes its server prove who it is. Knows no driver."""

import ipaddress
import os
from urllib.parse import parse_qs, urlsplit


def unverified(url: str) -> str | None:
    """A host on another machine that could be anybody, because its certificate is not checked."""
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres"):
        return None
    asked = parse_qs(parts.query)
    named = asked.get("host", [parts.netloc.rpartition("@")[2]])[-1].split(",")
    mode = asked.get("sslmode", [os.environ.get("PGSSLMODE", "")])[-1]
    hosts = [host for host in named if not _is_here(host)]
    return hosts[0] if hosts and mode != "verify-full" else None


def _is_here(host: str) -> bool:
    """Whether it is on this machine: a socket in a folder, or a loopback address."""
    if host[:1] in ("", "/", "@", ":"):
        return True
    name = host.rpartition("]")[0].removeprefix("[") or host.partition(":")[0]
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
