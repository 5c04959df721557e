"""The one cookie: a session's id, which no script can read and no other site's page can send."""

import re

from tenuto.api.call import Call
from tenuto.web.origin import values

NAME = b"tenuto_session"
HOST_NAME = b"__Host-" + NAME
"""Over HTTPS: a browser then takes it from this very host alone, and sends it over HTTPS alone."""

_TOKEN = re.compile(rb"[A-Za-z0-9_-]{43}\Z")


def read(call: Call, *, https: bool) -> str | None:
    """The session's id; None without one, and where two are sent, for one of them is not of our making."""
    name = HOST_NAME if https else NAME
    pairs = [part.strip().partition(b"=") for part in b";".join(values(call, b"cookie")).split(b";")]
    found = [value for key, _, value in pairs if key == name]
    if len(found) != 1 or _TOKEN.match(found[0]) is None:
        return None
    return found[0].decode("ascii")


def written(token: str, *, https: bool, seconds: int) -> tuple[bytes, bytes]:
    """The header that gives a browser its session."""
    return _header(token.encode("ascii"), https=https, seconds=seconds)


def forgotten(*, https: bool) -> tuple[bytes, bytes]:
    """The header that takes it away."""
    return _header(b"", https=https, seconds=0)


def _header(value: bytes, *, https: bool, seconds: int) -> tuple[bytes, bytes]:
    name, secure = (HOST_NAME, b"; Secure") if https else (NAME, b"")
    cookie = b"%b=%b; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%b" % (name, value, seconds, secure)
    return b"set-cookie", cookie
