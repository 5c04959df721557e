"""The links that are printed for people: to set the service up, and to set a password."""

from tenuto.accounts import people, sessions
from tenuto.addresses import NONE
from tenuto.config import Settings
from tenuto.db.database import Database, Transaction

EVERYWHERE = ("0.0.0.0", "[::]", "::")


def set_up_link(settings: Settings, database: Database, address: str, *, now_ms: int) -> str | None:
    """A new link that makes the operator; None when somebody is one."""
    if not database.read(people.needs_set_up):
        return None
    token = sessions.new_token()
    sha256 = sessions.token_sha256(token)
    database.write(lambda tx: people.offer_set_up(tx, sha256, now_ms=now_ms))
    return f"{studio_url(settings, address)}/setup#{token}"


def invitation_path(tx: Transaction, account_id: str, token: str, *, now_ms: int) -> str:
    """The path of a link that sets this account's password; who is sent it adds where the studio is."""
    people.invite(tx, account_id=account_id, token_sha256=sessions.token_sha256(token), now_ms=now_ms)
    return f"/invite#{token}"


def studio_url(settings: Settings, address: str | None = None) -> str:
    """Where people reach the studio, as far as we know; an address that listens everywhere is no place."""
    if settings.public_url != NONE:
        return settings.public_url
    host, _, port = (address or f"{settings.host}:{settings.port}").rpartition(":")
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{'localhost' if host in EVERYWHERE else host}:{port}"
