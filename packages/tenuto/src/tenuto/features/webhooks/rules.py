"""What a webhook may be, when sending is retried, and how messages are signed. Pure: no network, no database.

Signatures, headers and retries are those of the Standard Webhooks specification, https://www.standardwebhooks.com.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
from contextlib import suppress
from urllib.parse import urlsplit

from tenuto.errors import Fault
from tenuto.features.webhooks.public_addresses import may_be_public

EVENTS = ("job.succeeded", "job.failed", "job.cancelled", "job.recovery_required", "balance.low")
TEST = "webhook.test"
"""What `POST …/test` sends, whatever events the webhook has chosen."""
MAX_WEBHOOKS = 20
"""Per account."""
MAX_WAITING = 10_000
"""How many messages may wait for a webhook; beyond that, those that have been due longest fail."""
MAX_WAITING_FOR_TEST = 100
"""With this many waiting, a test would be sent far too late."""
MAX_URL_CHARACTERS = 2_000
MAX_NAME_CHARACTERS = 253
MAX_DESCRIPTION_CHARACTERS = 200

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
PAUSES_MS = (
    *(5 * SECOND_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 5 * HOUR_MS, 10 * HOUR_MS),
    *(14 * HOUR_MS, 20 * HOUR_MS, 24 * HOUR_MS),
)
"""The pauses before the second attempt, the third, …: the specification's schedule, three days in all."""
LONGEST_PAUSE_MS = 24 * HOUR_MS
GONE = 410
"""The status that disables a webhook."""
FAILING_MS = 72 * HOUR_MS
"""A webhook that fails for this long is disabled."""
OVERLAP_MS = 24 * HOUR_MS
"""How long the old secret signs as well after a rotation."""
SECRET_BYTES = 32
_SECRET = "whsec_"
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")


def secret_of(random: bytes) -> str:
    """A secret as its owner receives it."""
    return _SECRET + base64.b64encode(random).decode()


def signature(secrets: list[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The header `webhook-signature`: one signature for each secret. `timestamp`: Unix seconds."""
    signed = b".".join((message_id.encode(), b"%d" % timestamp, body))
    digests = [
        hmac.new(base64.b64decode(secret.removeprefix(_SECRET)), signed, hashlib.sha256).digest()
        for secret in secrets
    ]
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def pause_ms(attempts: int, retry_after_s: float | None) -> int | None:
    """How long to wait after this many failed attempts; None: it was the last one."""
    if attempts > len(PAUSES_MS):
        return None
    wanted_ms = 0 if retry_after_s is None else int(retry_after_s * 1000)
    return max(PAUSES_MS[attempts - 1], min(wanted_ms, LONGEST_PAUSE_MS))


def url_fault(url: str, *, is_public: bool) -> Fault | None:
    """What is wrong with a URL; `is_public`: only servers of the public internet are allowed, over TLS."""
    message = _wrong(url, is_public)
    return None if message is None else Fault("url", "not_allowed", message)


def _wrong(url: str, is_public: bool) -> str | None:  # noqa: PLR0911 (one for each way to be wrong)
    if not 0 < len(url) <= MAX_URL_CHARACTERS:
        return f"must have 1 to {MAX_URL_CHARACTERS} characters"
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "must be ASCII without spaces: names in Punycode, everything else escaped"
    try:
        split = urlsplit(url)
        host, port = split.hostname, split.port
    except ValueError:
        return "is not a URL such as https://example.com/webhooks"
    schemes = ("https",) if is_public else ("https", "http")
    if split.scheme not in schemes or not host:
        return f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)} and a host"
    if split.username is not None or split.password is not None:
        return "must not name a user or a password"
    if "#" in url:
        return "must not have a fragment"
    if port == 0:
        return "must not have port 0"
    if not _is_host(host) or ("[" in split.netloc) != (":" in host):
        return "must name a host: an address, or a name of letters, digits and hyphens between dots"
    if is_public and not may_be_public(host):
        return "must be a server on the public internet: the operator allows no others"
    return None


def _is_host(host: str) -> bool:
    """Whether it is an address, or may be a name. How others are read is up to the resolver."""
    if ":" in host:
        with suppress(ValueError):
            return bool(ipaddress.ip_address(host.replace("%25", "%", 1)))
        return False
    name = host.removesuffix(".").lower()
    return len(name) <= MAX_NAME_CHARACTERS and all(map(_LABEL.fullmatch, name.split(".")))
