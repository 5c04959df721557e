"""The one cookie: a session's id, which no script can read and no other site's page can send."""

import re

from tenuto.api.call import Call
from tenuto.web.origin import values

NAME = b"tenuto_session"
HOST_NAME = b"__Host-" + NAME
"""Over HTTPS: a browser then takes it from this very host alone, and sends it over HTTPS alone."""
SECURE_NAME = b"__Secure-" + NAME
"""The same below a prefix: browsers want `__Host-` to be sent with every path of the host."""

_TOKEN = re.compile(rb"[A-Za-z0-9_-]{43}\Z")


def read(call: Call, *, base: str, https: bool) -> str | None:
    """The session's id; None without one, and where two are sent, for one of them is not of our making."""
    name = _name(base, https=https)
    pairs = [part.strip().partition(b"=") for part in b";".join(values(call, b"cookie")).split(b";")]
    found = [value for key, _, value in pairs if key == name]
    if len(found) != 1 or _TOKEN.match(found[0]) is None:
        return None
    return found[0].decode("ascii")


def written(token: str, *, base: str, https: bool, seconds: int) -> tuple[bytes, bytes]:
    """The header that gives a browser its session."""
    return _header(token.encode("ascii"), base, https=https, seconds=seconds)


def forgotten(*, base: str, https: bool) -> tuple[bytes, bytes]:
    """The header that takes it away."""
    return _header(b"", base, https=https, seconds=0)


def _header(value: bytes, base: str, *, https: bool, seconds: int) -> tuple[bytes, bytes]:
    name, path, secure = _name(base, https=https), base.encode() or b"/", b"; Secure" if https else b""
    cookie = b"%b=%b; Path=%b; Max-Age=%d; HttpOnly; SameSite=Strict%b" % (name, value, path, seconds, secure)
    return b"set-cookie", cookie


def _name(base: str, *, https: bool) -> bytes:
    if not https:
        return NAME
    return SECURE_NAME if base else HOST_NAME
