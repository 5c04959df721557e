"""Where a request comes from: which address, over HTTPS or not, from our own pages or another site's.

What a proxy says of its client is believed when the proxy is one that the operator named. Nothing here knows
sessions or accounts.
"""

import ipaddress
from collections.abc import Sequence

from tenuto.addresses import Network
from tenuto.api.call import Call
from tenuto.errors import Forbidden

SAFE = ("GET", "HEAD")


def values(call: Call, name: bytes) -> list[bytes]:
    """All values of a header, its name in lower case."""
    return [value for key, value in call.scope["headers"] if key == name]


def is_https(call: Call, proxies: Sequence[Network]) -> bool:
    """Whether the browser speaks HTTPS: we never do, so a proxy must say it."""
    if not _is_one_of(_peer(call), proxies):
        return False
    told = b",".join(values(call, b"x-forwarded-proto")).split(b",")
    return told[-1].strip().lower() == b"https"


def client_address(call: Call, proxies: Sequence[Network]) -> str:
    """Whose tries these are: an IPv4 address, or the 64 bits of IPv6 that one customer usually has."""
    address = _peer(call)
    if _is_one_of(address, proxies):
        told = b",".join(values(call, b"x-forwarded-for")).decode("latin-1").split(",")
        for hop in reversed(told):
            if (parsed := _parse(hop.strip())) is None:
                break
            address = parsed
            if not _is_one_of(parsed, proxies):
                break
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def refuse_other_sites(call: Call, *, https: bool) -> None:
    """Forbidden when a page of another site makes this request, or one that changes something may be such.

    Browsers say so in Sec-Fetch-Site, but over plain HTTP to another machine; there the Origin is compared
    with the Host that was asked. Cookies are SameSite=Strict besides; that alone would let in other ports.
    """
    changes = call.scope["method"] not in SAFE
    site, origin = values(call, b"sec-fetch-site"), values(call, b"origin")
    if site:
        allowed = site == [b"same-origin"] or (site == [b"none"] and not changes)
    elif origin or changes:
        allowed = len(origin) == 1 and _is_ours(origin[0], values(call, b"host"), https=https)
    else:
        allowed = True
    if not allowed:
        message = "this must come from the studio's own pages; a proxy before us has to pass Host on as it is"
        raise Forbidden(message)


def _is_ours(origin: bytes, hosts: list[bytes], *, https: bool) -> bool:
    """A proxy that we were not told of may speak HTTPS for us, so from http we also take https."""
    scheme, _, host = origin.lower().partition(b"://")
    return [host] == [each.lower() for each in hosts] and scheme in (
        (b"https",) if https else (b"http", b"https")
    )


def _peer(call: Call) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    client = call.scope.get("client")
    return None if client is None else _parse(client[0])


def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_one_of(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None, networks: Sequence[Network]
) -> bool:
    return address is not None and any(address in network for network in networks)
