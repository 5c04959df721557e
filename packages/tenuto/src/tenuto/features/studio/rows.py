"""Rows of logins, sessions and invitations, as the store here reads them."""

import msgspec


class PersonRow(msgspec.Struct, frozen=True):
    """An account together with its login, for the operator. The rest is as in `account.rows.AccountRow`."""

    id: str
    name: str
    models: str | None
    """JSON list of the models that the operator allows; null: all. The operator replaces it as a whole."""
    available_micros: int
    held_micros: int
    suspended_at: int | None
    created_at: int
    operator: int
    """1: this person may use the operator's pages. Set with the login, by the set-up link alone."""
    signs_in: int
    """1: the account has a password. Its login is made when its first invitation is accepted."""
    invited: int
    """1: there is an unexpired link that sets its password. The link is removed when it is used."""


class LoginRow(msgspec.Struct, frozen=True):
    """What a password is verified against."""

    account_id: str
    """Whose password it is; an account has at most one login."""
    password_hash: str
    """argon2id with its parameters and salt. Replaced when the password changes, and by the next sign-in
    after the parameters change; sessions that began under an older password end in the same transaction."""


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
    """The secretless key under which the studio's calls are counted; made with the login."""
    password_hash: str


class InvitationRow(msgspec.Struct, frozen=True):
    """Whose password a link sets. The transaction that uses the link deletes the row."""

    account_id: str | None
    """Set when the link is made; null: a set-up link, for the operator, who has no account yet."""
    name: str | None
    """The name of the account at the time of reading; null: there is none yet."""


class SetUpLinkRow(msgspec.Struct, frozen=True):
    """A link that makes the operator. A service without one writes another at each start."""

    sha256: str
    """The hash of its token, which is printed once and stored nowhere."""
    expires_at: int
    """Set when the link is made; making a link removes the expired ones."""
