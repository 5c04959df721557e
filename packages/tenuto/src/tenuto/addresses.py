"""Addresses as people write them in settings: an origin, https://tenuto.example.com; networks; paths."""

import ipaddress
import re

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NONE = "none"
_ORIGIN = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?\Z")
_ENDPOINT = re.compile(_ORIGIN.pattern.removesuffix(r"\Z") + r"(/[A-Za-z0-9._~-]+)*/?\Z")
_PREFIX = re.compile(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+\Z")


def is_origin(text: str) -> bool:
    """Whether it is scheme, host and perhaps port, without a path; or the word none."""
    return text == NONE or _ORIGIN.match(text) is not None


def is_endpoint(text: str) -> bool:
    """Whether it is an origin, perhaps with a path; or the word none."""
    return text == NONE or _ENDPOINT.match(text) is not None


def are_origins(text: str) -> bool:
    """Whether it is a list of origins, comma-separated; `*`, every origin; or the word none."""
    return text in (NONE, "*") or all(_ORIGIN.match(part.strip()) for part in text.split(","))


def is_prefix(text: str) -> bool:
    """Whether it is a path such as /tenuto, without a slash at its end; or the word none."""
    return text == NONE or _PREFIX.match(text) is not None


def networks(text: str) -> list[Network]:
    """Addresses and networks, comma-separated; none gives an empty list. ValueError."""
    return [ipaddress.ip_network(part.strip()) for part in text.split(",")] if text != NONE else []


def are_networks(text: str) -> bool:
    """Whether `networks` can read it."""
    try:
        networks(text)
    except ValueError:
        return False
    return True


def is_program(text: str) -> bool:
    """Whether it is the absolute path of a program, which need not be there; or the word none."""
    return text == NONE or (text.startswith("/") and not text.endswith("/") and text.isprintable())
