"""Pure rules for API keys and names: no clock, no database.

A key is `tn_`, 43 base62 characters of secret and 6 of checksum, so that a mistyped or truncated key is
refused without a database query, and scanners can recognise a leaked one.
"""

import hashlib
import re
import unicodedata
import zlib
from collections.abc import Callable

from tenuto.errors import Fault, InvalidRequest
from tenuto.ids import is_id

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET_CHARACTERS = 43
MAX_NAME_CHARACTERS = 80

_PAIRS = [first + second for first in BASE62 for second in BASE62]
_KEY = re.compile(r"tn_[0-9A-Za-z]{49}\Z")


def make_key(random_below: Callable[[int], int]) -> str:
    """A new key; `random_below(n)` returns a uniform integer in 0..n-1 from a secure source."""
    secret = "".join(BASE62[random_below(62)] for _ in range(SECRET_CHARACTERS))
    return f"tn_{secret}{_checksum(secret)}"


def is_well_formed(key: str) -> bool:
    """Whether the form and the checksum are right, whether or not the key exists."""
    return _KEY.match(key) is not None and _checksum(key[3 : 3 + SECRET_CHARACTERS]) == key[-6:]


def key_sha256(key: str) -> str:
    """What is stored of a key: 256 random bits need no slow hash."""
    return hashlib.sha256(key.encode("ascii")).hexdigest()


def normal_name(name: str) -> str:
    """A name as it is stored: in composed form, so that equivalent spellings are the same text."""
    return unicodedata.normalize("NFC", name)


def name_key(name: str) -> str:
    """The form in which names are compared, as names that differ only in case or width would be confused."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def check_name(name: str, what: str) -> None:
    """Require a readable name: 1–80 printable characters, without white space at its ends, that does not look
    like an account's id: commands take either, so one account could pass for another."""
    is_readable = 1 <= len(name) <= MAX_NAME_CHARACTERS and name == name.strip() and name.isprintable()
    if is_readable and not is_id(name, "account"):
        return
    message = (
        f"a name of {what} has 1 to {MAX_NAME_CHARACTERS} printable characters, no white space at its ends,"
        " and does not look like an account's id"
    )
    raise InvalidRequest([Fault("name", "invalid_name", message)])


def _checksum(secret: str) -> str:
    """The CRC-32 in base 62, two digits at a time."""
    high, low = divmod(zlib.crc32(secret.encode("ascii")), 62**2)
    return _PAIRS[high // 62**2] + _PAIRS[high % 62**2] + _PAIRS[low]
