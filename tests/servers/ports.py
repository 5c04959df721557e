"""Ports that nobody listens on."""

import socket


def free_port(host: str = "127.0.0.1") -> int:
    """A free one; somebody else may take it until it is used, so take it late."""
    with socket.create_server((host, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
