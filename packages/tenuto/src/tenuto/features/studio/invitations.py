"""How somebody gets an account and a password: the links that are handed out, and the opening credit.

For the edge and the command line alike; knows nothing of requests.
"""

from tenuto.config import Settings
from tenuto.config.addresses import NONE
from tenuto.db.database import Database, Transaction
from tenuto.errors import Forbidden, InvalidRequest
from tenuto.features.studio import people_operations as people
from tenuto.features.studio import sessions
from tenuto.features.studio.rows import PersonRow
from tenuto.features.studio.settings import StudioSettings
from tenuto.ids import Ids
from tenuto.money import operations as billing

EVERYWHERE = ("0.0.0.0", "[::]", "::")


def set_up_link(settings: Settings, database: Database, address: str, *, now_ms: int) -> str | None:
    """A new link that creates the operator; None if there is one."""
    if not database.read(people.needs_set_up):
        return None
    token = sessions.new_token()
    sha256 = sessions.token_sha256(token)
    database.write(lambda tx: people.offer_set_up(tx, sha256, now_ms=now_ms))
    return f"{studio_url(settings, address)}/setup#{token}"


def first_steps(settings: Settings, database: Database, address: str, *, now_ms: int) -> list[str]:
    """For the person at the terminal: the set-up link, while there is no operator."""
    link = set_up_link(settings, database, address, now_ms=now_ms)
    if link is None:
        return []
    return [
        "To set up the studio, open this link; it creates the operator account, works once,"
        " and expires in 24 hours:",
        f"  {link}",
    ]


def invite(tx: Transaction, settings: Settings, person: PersonRow, token: str, *, now_ms: int) -> str:
    """The path of a link that sets a person's password; the sender prepends the studio's URL."""
    if not person.signs_in:
        refuse_closed(settings)
    people.refuse_suspended(tx, person.id)
    people.invite(tx, account_id=person.id, token_sha256=sessions.token_sha256(token), now_ms=now_ms)
    return f"/invite#{token}"


def invited_by(tx: Transaction, token: str, *, now_ms: int) -> str | None:
    """The account whose password this token sets; None if the token is unknown."""
    try:
        return people.find_invitation(tx, sessions.token_sha256(token), now_ms=now_ms).account_id
    except InvalidRequest:
        return None


def open_account(tx: Transaction, ids: Ids, settings: Settings, *, name: str, now_ms: int) -> str:
    """Open an account for somebody to be invited to; returns its id."""
    refuse_closed(settings)
    account_id = people.new_account(tx, ids, name=name, now_ms=now_ms)
    give_opening(tx, ids, settings, account_id, now_ms=now_ms)
    return account_id


def give_opening(tx: Transaction, ids: Ids, settings: Settings, account_id: str, *, now_ms: int) -> None:
    """Credit a new account with the opening amount in the settings."""
    credit_opening(tx, ids, account_id, amount_micros=settings.initial_credit_micros(), now_ms=now_ms)


def credit_opening(tx: Transaction, ids: Ids, account_id: str, *, amount_micros: int, now_ms: int) -> None:
    """Credit a new account; booked once, in the transaction that creates the account and its name."""
    if amount_micros:
        billing.credit(
            tx,
            ids.new("entry"),
            account_id=account_id,
            amount_micros=amount_micros,
            note="opening",
            now_ms=now_ms,
        )


def refuse_closed(settings: Settings) -> None:
    """Forbidden if the operator has closed registration."""
    if settings.of(StudioSettings).registration == "closed":
        raise Forbidden("this service does not accept new people: its setting registration is `closed`")


def studio_url(settings: Settings, address: str | None = None) -> str:
    """The studio's URL, as far as we know it; a wildcard address becomes `localhost`."""
    if settings.public_url != NONE:
        return settings.public_url + settings.base()
    host, _, port = (address or f"{settings.host}:{settings.port}").rpartition(":")
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{'localhost' if host in EVERYWHERE else host}:{port}{settings.base()}"
