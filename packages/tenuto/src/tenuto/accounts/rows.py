"""Rows of accounts, keys, logins, sessions and invitations, as the stores here read them.

A time is null until it has come. A process that dies before its commit has changed nothing of a row, one that
dies after it has changed everything; fields mention exceptions.
"""

import msgspec


class AccountRow(msgspec.Struct, frozen=True):
    """An account: who pays."""

    id: str
    """Made by whoever makes the account, before the commit; never changes, and accounts are never removed."""
    name: str
    """Chosen when the account is made; nothing changes it."""
    available_micros: int
    """What can be spent; written only together with the ledger line that says why."""
    held_micros: int
    """What open jobs hold; written like `available_micros`."""
    suspended_at: int | None
    """Set by the operator, null again once they resume the account. Every request reads it."""
    created_at: int
    """Set when the account is made."""


class PersonRow(msgspec.Struct, frozen=True):
    """An account together with its login, for the operator. The rest is as in `AccountRow`."""

    id: str
    name: str
    models: str | None
    """JSON list of the models that the operator allows; null: all. Replaced as a whole by the operator."""
    available_micros: int
    held_micros: int
    suspended_at: int | None
    created_at: int
    operator: int
    """1: this person may use the operator's pages. Set with the login, by the set-up link alone."""
    signs_in: int
    """1: the account has a password. Its login is made when its first invitation is accepted."""
    invited: int
    """1: there is a link that sets its password and has not expired. The link goes when it is used."""


class KeyRow(msgspec.Struct, frozen=True):
    """An API key as lists show it: everything but the key, of which only a hash is stored."""

    id: str
    """Made by whoever makes the key, so that a try whose answer was lost finds its key again."""
    account_id: str
    """Whose key it is; never changes."""
    account_name: str
    """The account's name at the time of reading."""
    name: str
    """What the key is for; set when it is made."""
    models: str | None
    """JSON list of the models that the key's creator allows; null: all of the account's. Never changes."""
    expires_at: int | None
    """When it stops working; set when it is made. Null: never."""
    revoked_at: int | None
    """Set by the first revocation; never unset."""
    last_used_at: int | None
    """Written at most once a minute, by the API; a process that dies loses the minute. For people alone."""
    created_at: int
    """Set when the key is made."""
    prefix: str
    """How the newest secret begins; each rotation writes a row of its own for its secret."""
    last_four: str
    """How the newest secret ends."""


class LockedKeyRow(msgspec.Struct, frozen=True):
    """A key that somebody can send, locked by whoever is about to change it. Fields as in `KeyRow`."""

    account_id: str
    revoked_at: int | None


class CallerRow(msgspec.Struct, frozen=True):
    """The key and the account behind a secret that is valid now: read by every request."""

    key_id: str
    """The key that the secret belongs to, whichever rotation it comes from."""
    account_id: str
    """Whose key it is."""
    account_models: str | None
    """`PersonRow.models`: what the operator allows now, not when the key was made."""
    key_models: str | None
    """`KeyRow.models`."""


class LoginRow(msgspec.Struct, frozen=True):
    """What a password is compared with."""

    account_id: str
    """Whose password it is; an account has at most one login."""
    password_hash: str
    """argon2id with its parameters and salt. Replaced when the password is changed, and by the next sign-in
    after the parameters were; sessions that began under an older password end in the same transaction."""


class SessionRow(msgspec.Struct, frozen=True):
    """Who is signed in: a session that has neither expired nor been idle for too long.

    The rest is as in `PersonRow` and `LoginRow`.
    """

    account_id: str
    """Whose session it is; set when it begins."""
    name: str
    """The account's name at the time of reading."""
    models: str | None
    operator: int
    key_id: str
    """The key without a secret that the studio's calls are counted under; made with the login."""
    password_hash: str


class InvitationRow(msgspec.Struct, frozen=True):
    """Whose password a link sets. The row goes in the transaction that uses the link."""

    account_id: str | None
    """Set when the link is made; null: the operator's, who has no account yet."""
    name: str | None
    """The name of the account at the time of reading; null: there is none yet."""


class SetUpLinkRow(msgspec.Struct, frozen=True):
    """A link that makes the operator. Each start of a service without one writes another."""

    sha256: str
    """The hash of its token, which is printed once and stored nowhere."""
    expires_at: int
    """Set when the link is made; expired links are removed by the next that is made."""
