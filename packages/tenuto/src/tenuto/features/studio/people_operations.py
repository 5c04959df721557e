"""Operations on logins: set up, register, invite, accept, change a password, suspend, resume.

A person is an account with a password; callers that only use keys need none. Passwords and tokens arrive
hashed: hashing is slow, and an operation must not be. Nothing here deals with money.
"""

from tenuto.account import operations
from tenuto.account import store as accounts
from tenuto.account.key_rules import check_name, name_key, normal_name
from tenuto.db.database import Transaction
from tenuto.errors import Fault, Forbidden, InvalidRequest, NotFound
from tenuto.features.studio import store
from tenuto.features.studio.rows import InvitationRow, LoginRow, PersonRow
from tenuto.ids import Ids

SET_UP_MS = 24 * 3_600_000
"""How long a set-up link works; the next start makes another."""
INVITATION_MS = 7 * 24 * 3_600_000
"""How long an invitation link works."""
MAX_SET_UP_LINKS = 16
STATES = ("active", "invited", "programs", "suspended")
"""Of an account: it has a password, it has a link to set one, only programs use it, it is suspended."""
STUDIO_KEY = "studio"
"""The name of the secretless key under which the studio's calls are counted."""


def needs_set_up(tx: Transaction) -> bool:
    """Whether the service has no operator yet."""
    return not store.has_operator(tx)


def offer_set_up(tx: Transaction, token_sha256: str, *, now_ms: int) -> None:
    """Store a one-time set-up link. Other processes' links stay, except the oldest beyond the limit."""
    store.remove_old_invitations(tx, now_ms)
    links = sorted(store.set_up_invitations(tx), key=lambda link: link.expires_at)
    for link in links[: len(links) - MAX_SET_UP_LINKS + 1]:
        store.remove_invitation(tx, link.sha256)
    store.add_invitation(tx, token_sha256, account_id=None, now_ms=now_ms, ends_at=now_ms + SET_UP_MS)


def set_up(
    tx: Transaction, ids: Ids, *, token_sha256: str, name: str, password_hash: str, now_ms: int
) -> tuple[str, bool]:
    """Make the operator: a new account, or one with this name and no password yet; returns whether it is new.

    Using one set-up link ends all of them.
    """
    live = [link.sha256 for link in store.set_up_invitations(tx) if link.expires_at > now_ms]
    if store.has_operator(tx) or token_sha256 not in live:
        raise used_link()
    store.remove_invitations(tx, None)
    account = accounts.account_by_name(tx, name) or accounts.account_by_name(tx, normal_name(name))
    account_id = new_account(tx, ids, name=name, now_ms=now_ms) if account is None else account.id
    if store.login(tx, account_id) is not None:
        raise taken_name()
    _add_login(tx, ids, account_id, password_hash, operator=True, now_ms=now_ms)
    return account_id, account is None


def register(tx: Transaction, ids: Ids, *, name: str, password_hash: str, now_ms: int) -> str:
    """Create an account with a password; returns its id."""
    account_id = new_account(tx, ids, name=name, now_ms=now_ms)
    _add_login(tx, ids, account_id, password_hash, operator=False, now_ms=now_ms)
    return account_id


def new_account(tx: Transaction, ids: Ids, *, name: str, now_ms: int) -> str:
    """Create an account without a password; returns its id. InvalidRequest: the name is taken or invalid."""
    check_name(name, "an account")
    if operations.by_name(tx, name) is not None:
        raise taken_name()
    return operations.create_account(tx, ids, name=name, now_ms=now_ms)


def invite(tx: Transaction, *, account_id: str, token_sha256: str, now_ms: int) -> None:
    """Store a link that sets or replaces the account's password; earlier links end."""
    store.remove_old_invitations(tx, now_ms)
    store.remove_invitations(tx, account_id)
    store.add_invitation(
        tx, token_sha256, account_id=account_id, now_ms=now_ms, ends_at=now_ms + INVITATION_MS
    )


def find_invitation(tx: Transaction, token_sha256: str, *, now_ms: int) -> InvitationRow:
    """The invitation behind a link; InvalidRequest if the link is not valid."""
    invitation = store.invitation(tx, token_sha256, now_ms)
    if invitation is None:
        raise used_link()
    return invitation


def accept(tx: Transaction, ids: Ids, *, token_sha256: str, password_hash: str, now_ms: int) -> str:
    """Set the password of a link's account, and end its sessions: they may belong to someone else."""
    account_id = find_invitation(tx, token_sha256, now_ms=now_ms).account_id
    if account_id is None or store.remove_invitation(tx, token_sha256) == 0:
        raise used_link()
    refuse_suspended(tx, account_id)
    if store.set_password(tx, account_id, password_hash, now_ms) == 0:
        _add_login(tx, ids, account_id, password_hash, operator=False, now_ms=now_ms)
    store.end_sessions(tx, account_id)
    return account_id


def has_password(tx: Transaction, account_id: str) -> bool:
    """Whether this account can sign in with a password."""
    return store.login(tx, account_id) is not None


def find_login(tx: Transaction, name: str) -> LoginRow | None:
    """The login with this name, for its password to be verified."""
    return store.login_by_name(tx, name) or store.login_by_name(tx, normal_name(name))


def change_password(tx: Transaction, *, account_id: str, old_hash: str, new_hash: str, now_ms: int) -> bool:
    """Change the password and end all sessions; False if the old one was changed meanwhile."""
    login = store.login(tx, account_id)
    if login is None or login.password_hash != old_hash:
        return False
    store.set_password(tx, account_id, new_hash, now_ms)
    store.end_sessions(tx, account_id)
    return True


def renew_hash(tx: Transaction, *, account_id: str, old_hash: str, new_hash: str) -> None:
    """Store the same password hashed with newer parameters."""
    store.replace_hash(tx, account_id, old_hash, new_hash)


def suspend(tx: Transaction, account_id: str, *, now_ms: int) -> None:
    """End the sessions and refuse the keys from the next request on; accepted jobs continue."""
    if accounts.set_suspended(tx, account_id, now_ms) == 0:
        raise NotFound
    store.end_sessions(tx, account_id)
    store.remove_invitations(tx, account_id)


def resume(tx: Transaction, account_id: str) -> None:
    """Let the keys and the password work again."""
    if accounts.set_suspended(tx, account_id, None) == 0:
        raise NotFound


def find_person(tx: Transaction, account_id: str, *, now_ms: int) -> PersonRow:
    """One account as `list_people` returns it. Raises NotFound."""
    person = store.person(tx, account_id, now_ms)
    if person is None:
        raise NotFound
    return person


def list_people(
    tx: Transaction,
    *,
    after: str | None,
    limit: int,
    now_ms: int,
    search: str | None = None,
    state: str | None = None,
) -> list[PersonRow]:
    """Accounts, oldest first, and whether they can sign in, are invited, are the operator.

    `search` is a part of the name, in any case and width, or the id; `state` is one of `STATES`.
    """
    return store.people(
        tx,
        after=after,
        limit=limit,
        pattern=None if search is None else f"%{_literal(name_key(search))}%",
        account_id=search,
        state=state,
        now_ms=now_ms,
    )


def refuse_suspended(tx: Transaction, account_id: str) -> None:
    """Raise Forbidden if the account is suspended."""
    account = accounts.account(tx, account_id)
    if account is None or account.suspended_at is not None:
        raise Forbidden("this account is suspended; ask whoever runs this service")


def taken_name() -> InvalidRequest:
    """The error for a name that is already taken."""
    return InvalidRequest([Fault("name", "taken", "there is an account of this name; choose another")])


def used_link() -> InvalidRequest:
    """The error for a wrong, used or expired token; its message does not say which."""
    message = "this link is not valid any more, or never was; ask for another one"
    return InvalidRequest([Fault("token", "not_valid", message)])


def _literal(text: str) -> str:
    """Escape a text with `!` so that it matches only itself in a `like` pattern."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _add_login(
    tx: Transaction, ids: Ids, account_id: str, password_hash: str, *, operator: bool, now_ms: int
) -> None:
    key_id = ids.new("key")
    accounts.add_key(
        tx, key_id, account_id=account_id, name=STUDIO_KEY, models=None, expires_at=None, now_ms=now_ms
    )
    store.add_login(
        tx, account_id, password_hash=password_hash, operator=operator, key_id=key_id, now_ms=now_ms
    )
