"""Machines on one machine: network namespaces on a switch, with addresses of their own and cables to pull.

Where the kernel or our rights do not allow that, processes with a proxy before each server they reach stand
in for them: their links can be cut as well, and their addresses are this machine's. Knows nothing of Tenuto.
"""

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from servers.alone import NoNetworkOfOnesOwn, come_back, leave
from servers.proxy import Address, Proxy

NAMESPACES = Path("/run/netns")
SUBNET = "198.18.0"
"""Set aside for tests of network devices (RFC 2544): nobody's real network has these addresses."""
OURS = "tenuto"
_NAME = re.compile(rf"{OURS}-(\d+)-")
_numbers = itertools.count()


class NoNamespaces(Exception):
    """Network namespaces cannot be had here; they take root and iproute2 on Linux."""


class Machine(Protocol):
    """A place where processes run."""

    name: str
    address: str

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that runs there."""
        ...

    def reach(self, server: Address) -> tuple[str, int]:
        """Where a process there finds a server that another machine holds."""
        ...

    def cut(self) -> None:
        """Pull its cable: nothing arrives any more, and nobody is told."""
        ...

    def heal(self) -> None: ...


class Network(Protocol):
    """Machines that reach each other."""

    kind: str
    cut_seen_s: float
    """How long it may take who asks the database to find out that the link is cut."""

    def machine(self, name: str) -> Machine: ...

    def close(self) -> None: ...


def lay() -> Network:
    """Namespaces where they are allowed, else processes behind proxies."""
    try:
        return Switch()
    except NoNamespaces:
        return Proxies()


# --- namespaces ---------------------------------------------------------------------------------------------


class Switch:
    """A bridge in a namespace of its own; the last address of the network is ours, of the caller's side.

    Until `close`, the thread that made it, and all that it starts, is in a third namespace: the browser of
    other tests aborts its requests when an address is added in its own one (net::ERR_NETWORK_CHANGED).
    """

    kind = "network namespaces"
    cut_seen_s = 12.0

    def __init__(self) -> None:
        if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter"))):
            raise NoNamespaces(NoNamespaces.__doc__)
        _sweep()
        self._prefix = f"{OURS}-{os.getpid()}-{next(_numbers)}"
        self._namespace = f"{self._prefix}-switch"
        self._machines = 0
        self.network = f"{SUBNET}.0/24"
        try:
            self._home = leave()
        except NoNetworkOfOnesOwn as error:
            raise NoNamespaces(str(error)) from error
        try:
            _ip("netns", "add", self._namespace)
            self._inside("link", "add", "name", "switch", "type", "bridge")
            self._inside("link", "set", "dev", "switch", "up")
            ends = f"link add name caller type veth peer name outside netns {self._namespace}"
            _ip(*ends.split())
            self.plug("outside")
            _ip("addr", "add", f"{SUBNET}.254/24", "dev", "caller")
            _ip("link", "set", "dev", "caller", "up")
        except NoNamespaces:
            self.close()
            raise

    def machine(self, name: str) -> "Namespace":
        self._machines += 1
        namespace, address = f"{self._prefix}-{name}", f"{SUBNET}.{self._machines}"
        _ip("netns", "add", namespace)
        ends = f"link add name eth0 type veth peer name {name} netns {self._namespace}"
        _ip("-n", namespace, *ends.split())
        _ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", namespace, "link", "set", "dev", device, "up")
        self.plug(name)
        return Namespace(name, address, NAMESPACES / namespace, self)

    def plug(self, port: str) -> None:
        self._inside("link", "set", "dev", port, "master", "switch", "up")

    def unplug(self, port: str) -> None:
        """The machine sees its cable still: packets leave and arrive nowhere, which is hardest to notice."""
        self._inside("link", "set", "dev", port, "nomaster")

    def close(self) -> None:
        """Call it in the thread that made it. A namespace ends with its last process, its devices with it."""
        come_back(self._home)
        for path in sorted(NAMESPACES.glob(f"{self._prefix}-*")):
            subprocess.run(["ip", "netns", "del", path.name], capture_output=True)

    def _inside(self, *words: str) -> None:
        _ip("-n", self._namespace, *words)


@dataclass
class Namespace:
    """A machine of a switch."""

    name: str
    address: str
    path: Path
    switch: Switch

    def command(self, words: Sequence[str]) -> list[str]:
        # It replaces itself by the command: the pid is the command's own.
        return ["nsenter", f"--net={self.path}", "--", *words]

    def reach(self, server: Address) -> tuple[str, int]:
        assert isinstance(server, tuple), "a socket in a folder is no way between machines"
        return server

    def cut(self) -> None:
        self.switch.unplug(self.name)

    def heal(self) -> None:
        self.switch.plug(self.name)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise NoNamespaces(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _sweep() -> None:
    """What test runs left behind that were killed."""
    for path in NAMESPACES.glob(f"{OURS}-*") if NAMESPACES.is_dir() else ():
        found = _NAME.match(path.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            subprocess.run(["ip", "netns", "del", path.name], capture_output=True)


# --- processes behind proxies -------------------------------------------------------------------------------


class Proxies:
    """Machines that are processes of this one; each reaches servers through proxies of its own."""

    kind = "processes behind proxies"
    # A proxy acknowledges what it does not pass on: the link looks whole, and an answer is waited for.
    cut_seen_s = 40.0

    def __init__(self) -> None:
        self._machines: list[Proxied] = []

    def machine(self, name: str) -> "Proxied":
        self._machines.append(Proxied(name))
        return self._machines[-1]

    def close(self) -> None:
        for proxy in (proxy for machine in self._machines for proxy in machine.proxies.values()):
            proxy.close()


@dataclass
class Proxied:
    """A machine whose links are proxies."""

    name: str
    address: str = "127.0.0.1"
    proxies: dict[Address, Proxy] = field(default_factory=dict)

    def command(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def reach(self, server: Address) -> tuple[str, int]:
        proxy = self.proxies.get(server) or self.proxies.setdefault(server, Proxy(server))
        return self.address, proxy.port

    def cut(self) -> None:
        for proxy in self.proxies.values():
            proxy.stall()

    def heal(self) -> None:
        for proxy in self.proxies.values():
            proxy.pass_on()
