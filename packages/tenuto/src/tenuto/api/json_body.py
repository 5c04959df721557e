"""Requests with a body: what their headers declare about it, and the JSON in it.

Faults of all headers are reported at once. Parsing JSON occupies the interpreter, which all threads share, so
it is bounded: the values of a body are counted before it is parsed, and only one large body of each account
is parsed at a time.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes

from tenuto import strict_json
from tenuto.api.call import Call
from tenuto.errors import Fault, RateLimited, UnsupportedMediaType
from tenuto.rules import quoted

SHA256_HEADER = "X-Service-Content-SHA256"
IDEMPOTENCY_HEADER = "Idempotency-Key"
IDEMPOTENCY_KEY = re.compile(rb"[\x20-\x7e]{1,255}\Z")
AT_ONCE_BYTES = 64 * 1024
"""The largest body that is parsed in the event loop."""
MAX_WAITING = 8
"""Larger bodies of one account that wait in memory for their turn."""
MAX_VALUES = 2_000
"""In a body other than a chat's: a job with every possible field has a few hundred."""
MAX_CHAT_VALUES = 50_000
"""In a chat's body: 4,096 messages that call tools have about 30,000, 128 tools with their schemas 10,000."""

T = TypeVar("T")
_SHA256 = re.compile(rb"[0-9A-Fa-f]{64}\Z")
_CHARSET = re.compile(rb';[ \t]*charset[ \t]*=[ \t]*"?([^"; \t]*)', re.IGNORECASE)
# RFC 8187: a charset, an optional language, and the percent-encoded name.
_EXTENDED = re.compile(rb"utf-8'[A-Za-z0-9-]*'([!#$&+.^_`|~A-Za-z0-9%-]*)\Z", re.IGNORECASE)
_PERCENT = re.compile(rb"(?:[^%]|%[0-9A-Fa-f]{2})*\Z", re.DOTALL)
_READ_AS_UTF8 = frozenset((b"utf-8", b"utf8", b"us-ascii", b"ascii"))
_COMPRESSIONS = frozenset((b"gzip", b"x-gzip", b"compress", b"x-compress", b"deflate", b"br", b"zstd"))


async def read_json(call: Call, limit_bytes: int, *, max_values: int = MAX_VALUES) -> tuple[bytes, Any]:
    """The body, and its value, parsed strictly.

    Raises UnsupportedMediaType, what `Call.read_body` raises, InvalidRequest, and RateLimited.
    """
    require_json(call)
    body = await call.read_body(limit_bytes)
    value = await beside_large(call, body, partial(strict_json.parse, body, max_values=max_values))
    return body, value


async def read_checked(call: Call, limit_bytes: int, max_values: int, check: Callable[[Any], T]) -> T:
    """What `check` makes of the value of a body, where a large one is parsed. Raises what both raise."""
    require_json(call)
    body = await call.read_body(limit_bytes)
    return await beside_large(call, body, lambda: check(strict_json.parse(body, max_values=max_values)))


async def beside_large(call: Call, body: bytes, work: Callable[[], T]) -> T:
    """Run work on a known caller's body: at once, or in a thread if the body is large."""
    if len(body) <= AT_ONCE_BYTES:
        return work()
    caller = call.caller
    if caller is not None and call.service.parsers.waiting(caller.account_id) >= MAX_WAITING:
        raise RateLimited(
            f"{MAX_WAITING} bodies over {AT_ONCE_BYTES >> 10} KiB from this account wait to be read, "
            "which is its limit",
            limit="large_bodies",
        )
    return await call.beside(call.service.parsers, work)


def media_type(call: Call) -> bytes:
    """The media type of the body, without parameters; empty if two are sent, as proxies may read either.

    UnsupportedMediaType for a compressed body, which would be misread: nothing here decompresses.
    """
    for codings in call.header_values(b"content-encoding"):
        if any(coding.strip().lower() in _COMPRESSIONS for coding in codings.split(b",")):
            raise UnsupportedMediaType("the body must be sent as it is, without a Content-Encoding")
    types = call.header_values(b"content-type")
    return types[0].partition(b";")[0].strip().lower() if len(types) == 1 else b""


def require_json(call: Call) -> None:
    """UnsupportedMediaType unless the body is declared as JSON, and in no charset but UTF-8 or ASCII."""
    if media_type(call) != b"application/json":
        raise UnsupportedMediaType("the body must be application/json")
    [content_type] = call.header_values(b"content-type")
    for charset in _CHARSET.findall(content_type):
        if charset.lower() not in _READ_AS_UTF8:
            raise UnsupportedMediaType(
                f"the charset {quoted(charset.decode('latin-1'))} is not supported; send the body as UTF-8, "
                "with `Content-Type: application/json`"
            )


def content_sha256(call: Call, faults: list[Fault]) -> str:
    """The SHA-256 that the body must have, in lower case."""
    values = call.header_values(SHA256_HEADER.lower().encode())
    if len(values) == 1 and _SHA256.match(values[0]):
        return values[0].decode("ascii").lower()
    message = "the header is required once: the SHA-256 of the body in 64 hex digits"
    faults.append(Fault(SHA256_HEADER, "invalid_checksum" if values else "required", message))
    return ""


def idempotency_key(call: Call, faults: list[Fault]) -> str | None:
    """The idempotency key, if one is sent; a malformed one is added to `faults`."""
    values = call.header_values(b"idempotency-key")
    if not values:
        return None
    if len(values) == 1 and IDEMPOTENCY_KEY.match(values[0]):
        return values[0].decode("ascii")
    message = "the header may be given once: 1 to 255 printable ASCII characters, new for each new upload"
    faults.append(Fault(IDEMPOTENCY_HEADER, "invalid_idempotency_key", message))
    return None


def decode_name(header: bytes) -> str | None:
    """The name in a header; None if its bytes are not UTF-8.

    Percent-decoded if every `%` is followed by two hex digits and the result is UTF-8, by itself or in
    RFC 8187's form `UTF-8''NAME`; else as it stands.
    """
    extended = _EXTENDED.match(header)
    for encoded in (extended[1] if extended else None, header):
        if encoded is not None and _PERCENT.match(encoded):
            name = _utf8(unquote_to_bytes(encoded))
            if name is not None:
                return name
    return _utf8(header)


def _utf8(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
