"""What requests with a body say of it in their headers; faults of all headers are answered at once."""

import re

from tenuto.api.call import Call
from tenuto.bodies.fields import quoted
from tenuto.errors import Fault, UnsupportedMediaType

SHA256_HEADER = "X-Service-Content-SHA256"
IDEMPOTENCY_HEADER = "Idempotency-Key"

_SHA256 = re.compile(rb"[0-9A-Fa-f]{64}\Z")
_IDEMPOTENCY_KEY = re.compile(rb"[\x20-\x7e]{1,255}\Z")
_CHARSET = re.compile(rb';[ \t]*charset[ \t]*=[ \t]*"?([^"; \t]*)', re.IGNORECASE)
_READ_AS_UTF8 = frozenset((b"utf-8", b"utf8", b"us-ascii", b"ascii"))
_COMPRESSIONS = frozenset((b"gzip", b"x-gzip", b"compress", b"x-compress", b"deflate", b"br", b"zstd"))


def media_type(call: Call) -> bytes:
    """The media type of the body, without parameters; none when two are told: others may take the other.

    UnsupportedMediaType for a compressed body, which would only be misread: nothing here unpacks one.
    """
    for codings in values(call, "Content-Encoding"):
        if any(coding.strip().lower() in _COMPRESSIONS for coding in codings.split(b",")):
            raise UnsupportedMediaType("the body must be sent as it is, without a Content-Encoding")
    given = values(call, "Content-Type")
    return given[0].partition(b";")[0].strip().lower() if len(given) == 1 else b""


def require_json(call: Call) -> None:
    """UnsupportedMediaType unless the body is JSON, in the one charset that JSON has between systems."""
    if media_type(call) != b"application/json":
        raise UnsupportedMediaType("the body must be application/json")
    [content_type] = values(call, "Content-Type")
    for charset in _CHARSET.findall(content_type):
        if charset.lower() not in _READ_AS_UTF8:
            raise UnsupportedMediaType(
                f"the charset {quoted(charset.decode('latin-1'))} is not supported; send the body as UTF-8, "
                "with `Content-Type: application/json`"
            )


def values(call: Call, name: str) -> list[bytes]:
    """All values of a header, as they were sent."""
    wanted = name.lower().encode()
    return [value for key, value in call.scope["headers"] if key == wanted]


def content_sha256(call: Call, faults: list[Fault]) -> str:
    """The SHA-256 that the body must have, in lower case."""
    given = values(call, SHA256_HEADER)
    if len(given) == 1 and _SHA256.match(given[0]):
        return given[0].decode("ascii").lower()
    message = "the header is required once: the SHA-256 of the body in 64 hex digits"
    faults.append(Fault(SHA256_HEADER, "invalid_checksum" if given else "required", message))
    return ""


def idempotency_key(call: Call, faults: list[Fault]) -> str | None:
    """The key that makes a repeated upload give the same record, where one is sent."""
    given = values(call, IDEMPOTENCY_HEADER)
    if not given:
        return None
    if len(given) == 1 and _IDEMPOTENCY_KEY.match(given[0]):
        return given[0].decode("ascii")
    message = "the header may be given once: 1 to 255 printable ASCII characters, new for each new upload"
    faults.append(Fault(IDEMPOTENCY_HEADER, "invalid_idempotency_key", message))
    return None
