"""Whether a request's end and host can be read in one way only: a proxy might read them in another."""

from tenuto.api.body_bytes import RawHeaders

LENGTHS = frozenset((b"content-length", b"transfer-encoding"))
"""The two headers that say where a body ends."""
FRAMING = LENGTHS | {b"host"}
"""Headers that a request may have only once, and that are read exactly as sent."""


def framing_fault(version: str, headers: RawHeaders) -> str | None:
    """What makes the end or the host of this request ambiguous, or None. Names are in lower case."""
    framing: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in FRAMING:
            if name in framing:
                return f"{name.decode().title()} must be given once."
            framing[name] = value
    if version not in ("1.1", "1.0"):
        return "The protocol must be HTTP/1.1."
    return _length_fault(version, framing) or _host_fault(version, framing)


def _length_fault(version: str, framing: dict[bytes, bytes]) -> str | None:
    length = framing.get(b"content-length")
    # The parser accepts up to 2**64 - 1; no body needs more than fifteen digits.
    if length is not None and (len(length) > 15 or not length.isdigit()):
        return "Content-Length must be a plain number of bytes."
    coding = framing.get(b"transfer-encoding")
    if coding is not None and coding.lower() != b"chunked":
        return "The only Transfer-Encoding that is understood is `chunked`."
    if coding is not None and (length is not None or version == "1.0"):
        return "Transfer-Encoding stands alone, in HTTP/1.1 only."
    return None


def _host_fault(version: str, framing: dict[bytes, bytes]) -> str | None:
    host = framing.get(b"host")
    if host is None:
        return "The Host header is missing." if version == "1.1" else None
    if not host.isascii() or not host or host.translate(None, b'/?#@\\, \t"<>') != host:
        return "The Host header must be a host and perhaps a port."
    return None
