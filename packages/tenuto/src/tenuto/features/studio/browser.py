"""What a browser's request shows: its address, whether it used HTTPS, its site, and the session cookie.

What a proxy reports about its client is believed only if the operator named it as trusted. This module knows
nothing of accounts, and of sessions only that a cookie carries their token.
"""

import ipaddress
import re
from collections.abc import Sequence

from tenuto.api.call import Call
from tenuto.config.addresses import Network
from tenuto.errors import Forbidden

SAFE = ("GET", "HEAD")

COOKIE = b"tenuto_session"
HOST_COOKIE = b"__Host-" + COOKIE
"""Over HTTPS: browsers then accept it from this host only, and send it over HTTPS only."""
SECURE_COOKIE = b"__Secure-" + COOKIE
"""The same under a path prefix: a `__Host-` cookie must be valid for every path of the host."""

_TOKEN = re.compile(rb"[A-Za-z0-9_-]{43}\Z")
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_https(call: Call, proxies: Sequence[Network]) -> bool:
    """Whether the browser uses HTTPS: we never do ourselves, so a proxy must report it."""
    if not _is_one_of(_peer(call), proxies):
        return False
    protocols = b",".join(call.header_values(b"x-forwarded-proto")).split(b",")
    return protocols[-1].strip().lower() == b"https"


def client_address(call: Call, proxies: Sequence[Network]) -> str:
    """The address by which attempts are counted: IPv4, or the IPv6 /64 that one customer usually has."""
    address = _peer(call)
    if _is_one_of(address, proxies):
        hops = b",".join(call.header_values(b"x-forwarded-for")).decode("latin-1").split(",")
        for hop in reversed(hops):
            if (parsed := _parse(hop.strip())) is None:
                break
            address = parsed
            if not _is_one_of(parsed, proxies):
                break
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


def refuse_other_sites(call: Call, *, https: bool) -> None:
    """Forbidden if another site's page made this request, or may have made it and it changes something.

    Browsers report the site in Sec-Fetch-Site, except over plain HTTP to another machine; there we compare
    the Origin with the Host of the request. Cookies are SameSite=Strict as well; that alone would admit pages
    on other ports.
    """
    changes = call.scope["method"] not in SAFE
    site, origin = call.header_values(b"sec-fetch-site"), call.header_values(b"origin")
    if site:
        allowed = site == [b"same-origin"] or (site == [b"none"] and not changes)
    elif origin or changes:
        allowed = len(origin) == 1 and _is_ours(origin[0], call.header_values(b"host"), https=https)
    else:
        allowed = True
    if not allowed:
        message = "this must come from the studio's own pages; a proxy in front must pass Host on unchanged"
        raise Forbidden(message)


def session_token(call: Call, *, base: str, https: bool) -> str | None:
    """The token in the cookie; None if there is none, or if two are sent, since one of them is not ours."""
    name = _cookie_name(base, https=https)
    cookies = b";".join(call.header_values(b"cookie")).split(b";")
    tokens = [value for key, _, value in (each.strip().partition(b"=") for each in cookies) if key == name]
    if len(tokens) != 1 or _TOKEN.match(tokens[0]) is None:
        return None
    return tokens[0].decode("ascii")


def session_cookie(token: str, *, base: str, https: bool, seconds: int) -> tuple[bytes, bytes]:
    """The header that sets the browser's session cookie, or removes it (an empty token, 0 seconds).

    No script can read the cookie, and no page of another site can send it.
    """
    name, path, secure = _cookie_name(base, https=https), base.encode() or b"/", b"; Secure" if https else b""
    value = token.encode("ascii")
    cookie = b"%b=%b; Path=%b; Max-Age=%d; HttpOnly; SameSite=Strict%b" % (name, value, path, seconds, secure)
    return b"set-cookie", cookie


def _cookie_name(base: str, *, https: bool) -> bytes:
    if not https:
        return COOKIE
    return SECURE_COOKIE if base else HOST_COOKIE


def _is_ours(origin: bytes, hosts: list[bytes], *, https: bool) -> bool:
    """Whether the origin is our own host. Over HTTP, https counts too: an unnamed proxy may terminate it."""
    scheme, _, host = origin.lower().partition(b"://")
    return [host] == [each.lower() for each in hosts] and scheme in (
        (b"https",) if https else (b"http", b"https")
    )


def _peer(call: Call) -> _Address | None:
    client = call.scope.get("client")
    return None if client is None else _parse(client[0])


def _parse(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_one_of(address: _Address | None, networks: Sequence[Network]) -> bool:
    return address is not None and any(address in network for network in networks)
