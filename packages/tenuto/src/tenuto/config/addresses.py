"""Addresses as written in settings: origins such as https://tenuto.example.com, networks, paths."""

import ipaddress
import re

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NONE = "none"
_ORIGIN = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?\Z")
_PREFIX = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+\Z")


def is_origin(text: str) -> bool:
    """Whether the text is a scheme, a host and an optional port, without a path; or the word none."""
    return text == NONE or _ORIGIN.match(text) is not None


def are_origins(text: str) -> bool:
    """Whether the text is a comma-separated list of origins; `*`, for every origin; or the word none."""
    return text in (NONE, "*") or all(_ORIGIN.match(part.strip()) for part in text.split(","))


def is_prefix(text: str) -> bool:
    """Whether the text is a path such as /tenuto, without a trailing slash; or the word none."""
    return text == NONE or _PREFIX.match(text) is not None


def networks(text: str) -> list[Network]:
    """Parse comma-separated addresses and networks; none gives an empty list. Raises ValueError."""
    return [ipaddress.ip_network(part.strip()) for part in text.split(",")] if text != NONE else []


def are_networks(text: str) -> bool:
    """Whether `networks` can parse the text."""
    try:
        networks(text)
    except ValueError:
        return False
    return True
