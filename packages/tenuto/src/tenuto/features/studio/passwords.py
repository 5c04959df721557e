"""Passwords: which are accepted, how they are stored and how they are verified. Knows no accounts.

Argon2id with the parameters that RFC 9106 recommends where memory is limited: 64 MiB, three passes. It is
slow on purpose: call it in a thread.
"""

import base64
import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY as COST

from tenuto.errors import Fault

MIN_CHARACTERS = 10
MAX_CHARACTERS = 200
MIN_DIFFERENT = 4

_hasher = PasswordHasher.from_parameters(COST)


def password_fault(param: str, password: str, *, name: str) -> Fault | None:
    """What is wrong with a newly chosen password: length matters, classes of characters don't."""
    length = len(_normal(password))
    if not MIN_CHARACTERS <= length <= MAX_CHARACTERS:
        message = f"has {length} characters; from {MIN_CHARACTERS} to {MAX_CHARACTERS} are allowed"
        return Fault(param, "wrong_length", message)
    if len(set(password)) < MIN_DIFFERENT or _normal(password).casefold() == _normal(name).casefold():
        message = f"is the name, or has fewer than {MIN_DIFFERENT} different characters; choose another"
        return Fault(param, "too_simple", message)
    return None


def hash_password(password: str) -> str:
    """The hash that is stored for a password."""
    return _hasher.hash(_normal(password))


def is_right(password_hash: str, password: str) -> bool:
    """Whether this is the password; takes equally long either way."""
    try:
        return _hasher.verify(password_hash, _normal(password))
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(password_hash: str) -> bool:
    """Whether it was made with parameters other than today's."""
    return _hasher.check_needs_rehash(password_hash)


def nobodys_hash() -> str:
    """A hash that no password matches, verified for unknown names so that they take equally long."""
    salt = base64.b64encode(bytes(COST.salt_len)).rstrip(b"=").decode()
    digest = base64.b64encode(bytes(COST.hash_len)).rstrip(b"=").decode()
    cost = f"m={COST.memory_cost},t={COST.time_cost},p={COST.parallelism}"
    return f"$argon2id$v={COST.version}${cost}${salt}${digest}"


def _normal(password: str) -> str:
    """The same text however a keyboard composes its characters."""
    return unicodedata.normalize("NFKC", password)
