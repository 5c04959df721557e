"""Commands as they were spelled before `tenuto admin`, and what each is called now. Knows only words."""

from collections.abc import Sequence

RENAMED = {
    "accounts": "admin accounts",
    "accounts resume": "admin accounts unsuspend",
    "keys": "admin keys",
    "models list": "admin models list",
    "models verify": "admin models verify",
    "models adapters": "admin adapters",
    "voice-library": "admin voices",
    "recover": "admin recover",
    "recover show": "admin evidence",
    "audit": "admin audit",
    "backup": "admin backup",
    "restore": "admin restore",
    "doctor": "admin doctor",
    "migrate": "admin migrate",
    "catalog": "models",
}
"""The old words and the new ones; the longest match counts."""

REMOVED = {
    "migrate-to": "`tenuto migrate-to` was removed: stop the service, run `tenuto admin backup DIR`, then"
    " `tenuto admin restore DIR` with the settings of the new place (docs/operations/moving.md)",
}
"""Commands that no longer exist, and what to do instead."""


def answer(words: Sequence[str]) -> str | None:
    """The message for a user who typed an old spelling; None if it is not one."""
    if words and words[0] in REMOVED:
        return REMOVED[words[0]]
    for length in (2, 1):
        old = " ".join(words[:length])
        if len(words) >= length and old in RENAMED:
            return f"`tenuto {old}` is now `tenuto {RENAMED[old]}`."
    return None
