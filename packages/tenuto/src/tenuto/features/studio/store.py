"""The rows of logins, sessions, invitations, tries. Takes a transaction, never commits, decides nothing."""

from tenuto.db import records
from tenuto.db.database import Asking, Transaction
from tenuto.db.records import DeferredRecord
from tenuto.features.studio.rows import InvitationRow, LoginRow, PersonRow, SessionRow, SetUpLinkRow

_PERSON_COLUMNS = """
    select a.id, a.name, a.models, a.available_micros, a.held_micros, a.suspended_at, a.created_at,
           coalesce(l.operator, 0) as operator,
           case when l.account_id is null then 0 else 1 end as signs_in,
           case when exists (select 1 from invitation i where i.account_id = a.id and i.expires_at > :now)
                then 1 else 0 end as invited
    from account a left join login l on l.account_id = a.id
"""
_PERSON = _PERSON_COLUMNS + "where a.id = :id"
# A search scans the accounts in order: ten thousand of them take milliseconds.
_STATE = """case when a.suspended_at is not null then 'suspended'
                 when l.account_id is not null then 'active'
                 when exists (select 1 from invitation i where i.account_id = a.id and i.expires_at > :now)
                 then 'invited' else 'programs' end"""
_PEOPLE = f"""{_PERSON_COLUMNS}
    where a.id > :after
      and (cast(:pattern as text) is null or a.name_key like :pattern escape '!' or a.id = :account_id)
      and (cast(:state as text) is null or {_STATE} = :state)
    order by a.id limit :limit"""


def add_login(
    tx: Transaction, account_id: str, *, password_hash: str, operator: bool, key_id: str, now_ms: int
) -> None:
    tx.run(
        """insert into login (account_id, password_hash, operator, key_id, created_at, changed_at)
           values (:account_id, :password_hash, :operator, :key_id, :now, :now)""",
        account_id=account_id,
        password_hash=password_hash,
        operator=int(operator),
        key_id=key_id,
        now=now_ms,
    )


def login(tx: Transaction, account_id: str) -> LoginRow | None:
    """The login of an account, locked."""
    return records.one(
        tx,
        LoginRow,
        "select account_id, password_hash from login where account_id = :id for update",
        id=account_id,
    )


def login_by_name(tx: Transaction, name: str) -> LoginRow | None:
    return records.one(
        tx,
        LoginRow,
        """select l.account_id, l.password_hash
           from account a join login l on l.account_id = a.id where a.name = :name""",
        name=name,
    )


def has_operator(tx: Transaction) -> bool:
    return tx.one("select 1 as one from login where operator = 1 limit 1") is not None


def set_password(tx: Transaction, account_id: str, password_hash: str, now_ms: int) -> int:
    return tx.run(
        "update login set password_hash = :hash, changed_at = :now where account_id = :id",
        id=account_id,
        hash=password_hash,
        now=now_ms,
    )


def replace_hash(tx: Transaction, account_id: str, old: str, new: str) -> int:
    return tx.run(
        "update login set password_hash = :new where account_id = :id and password_hash = :old",
        id=account_id,
        old=old,
        new=new,
    )


def people(
    tx: Transaction,
    *,
    after: str | None,
    limit: int,
    pattern: str | None,
    account_id: str | None,
    state: str | None,
    now_ms: int,
) -> list[PersonRow]:
    """Accounts, oldest first, with what is known of their logins. `pattern` is a `like` pattern."""
    return records.all_records(
        tx,
        PersonRow,
        _PEOPLE,
        after=after or "",
        limit=limit,
        pattern=pattern,
        account_id=account_id,
        state=state,
        now=now_ms,
    )


def person(tx: Transaction, account_id: str, now_ms: int) -> PersonRow | None:
    return records.one(tx, PersonRow, _PERSON, id=account_id, now=now_ms)


def add_session(tx: Transaction, sha256: str, *, account_id: str, now_ms: int, ends_at: int) -> None:
    tx.run(
        """insert into web_session (sha256, account_id, created_at, seen_at, expires_at)
           values (:sha256, :account_id, :now, :now, :ends_at)""",
        sha256=sha256,
        account_id=account_id,
        now=now_ms,
        ends_at=ends_at,
    )


def ask_session(tx: Asking, sha256: str, *, now_ms: int, seen_after: int) -> DeferredRecord[SessionRow]:
    """Ask for a currently valid session and its account."""
    return records.ask(
        tx,
        SessionRow,
        """select a.id as account_id, a.name, a.models, l.operator, l.key_id, l.password_hash
           from web_session s
           join account a on a.id = s.account_id
           join login l on l.account_id = s.account_id
           where s.sha256 = :sha256 and s.expires_at > :now and s.seen_at > :seen_after
             and a.suspended_at is null""",
        sha256=sha256,
        now=now_ms,
        seen_after=seen_after,
    )


def see_session(tx: Transaction, sha256: str, at_ms: int) -> None:
    tx.run("update web_session set seen_at = :at where sha256 = :sha256", sha256=sha256, at=at_ms)


def end_session(tx: Transaction, sha256: str) -> None:
    tx.run("delete from web_session where sha256 = :sha256", sha256=sha256)


def end_sessions(tx: Transaction, account_id: str) -> None:
    tx.run("delete from web_session where account_id = :id", id=account_id)


def end_old_sessions(tx: Transaction, *, now_ms: int, seen_before: int) -> None:
    tx.run(
        "delete from web_session where expires_at <= :now or seen_at <= :seen_before",
        now=now_ms,
        seen_before=seen_before,
    )


def end_surplus_sessions(tx: Transaction, account_id: str, kept: int) -> None:
    """End all but the `kept` newest sessions of an account."""
    tx.run(
        """delete from web_session where account_id = :id and sha256 not in (
               select sha256 from web_session where account_id = :id
               order by created_at desc, sha256 limit :kept)""",
        id=account_id,
        kept=kept,
    )


def add_invitation(
    tx: Transaction, sha256: str, *, account_id: str | None, now_ms: int, ends_at: int
) -> None:
    tx.run(
        """insert into invitation (sha256, account_id, created_at, expires_at)
           values (:sha256, :account_id, :now, :ends_at)""",
        sha256=sha256,
        account_id=account_id,
        now=now_ms,
        ends_at=ends_at,
    )


def invitation(tx: Transaction, sha256: str, now_ms: int) -> InvitationRow | None:
    return records.one(
        tx,
        InvitationRow,
        """select i.account_id, a.name from invitation i left join account a on a.id = i.account_id
           where i.sha256 = :sha256 and i.expires_at > :now""",
        sha256=sha256,
        now=now_ms,
    )


def set_up_invitations(tx: Transaction) -> list[SetUpLinkRow]:
    """All set-up links, locked in a fixed order, so that two people who set up at once are serialised."""
    return records.all_records(
        tx,
        SetUpLinkRow,
        "select sha256, expires_at from invitation where account_id is null order by sha256 for update",
    )


def remove_invitation(tx: Transaction, sha256: str) -> int:
    return tx.run("delete from invitation where sha256 = :sha256", sha256=sha256)


def remove_invitations(tx: Transaction, account_id: str | None) -> None:
    """Remove an account's invitations; for None, the set-up links."""
    tx.run(
        """delete from invitation
           where account_id = :id or (cast(:id as text) is null and account_id is null)""",
        id=account_id,
    )


def remove_old_invitations(tx: Transaction, now_ms: int) -> None:
    tx.run("delete from invitation where expires_at <= :now", now=now_ms)


def count_try(
    tx: Transaction, counted: str, *, leak_ms: int, room_until: int, latest: int, now_ms: int
) -> int:
    """Add a try, if there is room for it; 0: there is none. Beyond `latest` no right clock has written."""
    return tx.run(
        """insert into login_try (counted, empty_at) values (:counted, :once)
           on conflict (counted) do update
           set empty_at = :leak + case when login_try.empty_at between :now and :latest
                                       then login_try.empty_at else :now end
           where login_try.empty_at <= :room_until or login_try.empty_at > :latest""",
        counted=counted,
        once=now_ms + leak_ms,
        leak=leak_ms,
        now=now_ms,
        latest=latest,
        room_until=room_until,
    )


def try_empty_at(tx: Transaction, counted: str) -> int:
    """When its row is empty; 0: there is none."""
    row = tx.one("select empty_at from login_try where counted = :counted", counted=counted)
    return 0 if row is None else int(row["empty_at"])


def uncount_try(tx: Transaction, counted: str, leak_ms: int) -> None:
    tx.run(
        "update login_try set empty_at = empty_at - :leak where counted = :counted",
        leak=leak_ms,
        counted=counted,
    )


def forget_old_tries(tx: Transaction, now_ms: int, most: int) -> None:
    """Waits for nobody: rows that another transaction is counting in are not old any more."""
    tx.run(
        """delete from login_try where counted in (
               select counted from login_try where empty_at < :now limit :most for update skip locked)""",
        now=now_ms,
        most=most,
    )
