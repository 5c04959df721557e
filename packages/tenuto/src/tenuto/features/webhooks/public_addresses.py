"""Which servers are on the public internet, by name and by address.

Pure: resolves no names. `sending` checks the addresses that it connects to.
"""

import ipaddress

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""All that IANA assigns from: what is outside, such as site-local addresses, local NAT64, segment routing and
IPv4 addresses inside of others, is not public, whatever this version of Python knows of it."""
_NOT_PUBLIC = [ipaddress.ip_network(text) for text in ("3fff::/20", "192.0.0.0/24", "192.88.99.0/24")]
"""Not public although `is_global`: documentation (RFC 9637), protocol assignments (some clouds serve metadata
there), relays of 6to4 (RFC 7526)."""
_NO_NAMES = (
    *(".localhost", ".local", ".internal", ".localdomain", ".lan", ".home.arpa"),
    *(".test", ".invalid", ".onion", ".alt"),
)
"""Names that never are in the public DNS."""


def may_be_public(host: str) -> bool:
    """Whether a host may be looked up at all; its addresses are checked when it is connected to."""
    try:
        return "%" not in host and is_public_address(host)
    except ValueError:
        pass
    name = host.removesuffix(".").lower()
    # One that ends in a number, also in hexadecimal, is an address in disguise: 2130706433 is 127.0.0.1.
    last = name.rpartition(".")[2]
    is_number = last.isdigit() or last.startswith("0x")
    return "." in name and not is_number and not name.endswith(_NO_NAMES)


def is_public_address(address: str) -> bool:
    """Whether an IP address is one of the public internet. ValueError: it is not an address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        if ip.teredo is not None:
            return False
        if inner is not None:
            return is_public_address(str(inner))
        if ip not in _GLOBAL_UNICAST:
            return False
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NOT_PUBLIC)
