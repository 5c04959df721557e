"""The rows of voices and preferences. Takes a transaction, never commits, decides nothing."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.features.voices.rows import BuiltInRow, LibraryVoiceRow, PreferenceRow, VoiceName, VoiceRow

_VOICES = """
    select v.id, v.account_id, v.kind, v.name, v.languages, v.default_parameters, v.profile,
           v.profile_version, v.provenance, v.blob_id, v.duration_ms, v.sample_rate, v.channels,
           v.created_at, b.size_bytes, b.sha256, b.block_crcs
    from voice v join blob b on b.id = v.blob_id
"""
_VOICE = f"{_VOICES} where v.id = :id and (v.account_id is null or v.account_id = :account_id)"
# Two look-ups in the index, however many voices other accounts have.
_LISTED = f"""{_VOICES}
    where v.id in (
        select id from voice where account_id is null and retired_at is null and id > :after
        union all
        select id from (select id from voice where account_id = :account_id and id > :after
                        order by id limit :limit) as own)
    order by v.id limit :limit
"""  # noqa: S608 (a text of this file)


class NewVoice(Struct, frozen=True):
    """A voice's row without its time of creation; JSON is text."""

    voice_id: str
    account_id: str | None
    kind: str
    name: str
    languages: str
    default_parameters: str
    profile: str
    profile_version: str | None
    provenance: str | None
    blob_id: str
    duration_ms: int
    sample_rate: int
    channels: int
    built_in: bool = False


def voice(tx: Transaction, voice_id: str, account_id: str) -> VoiceRow | None:
    """A voice that this account may see, retired ones too."""
    return records.one(tx, VoiceRow, _VOICE, id=voice_id, account_id=account_id)


def hold_voice(tx: Transaction, voice_id: str, account_id: str) -> bool:
    """Keep an own voice from being deleted before this transaction ends. False: it is gone."""
    held = tx.one(
        "select id from voice where id = :id and account_id = :account_id for share",
        id=voice_id,
        account_id=account_id,
    )
    return held is not None


def voices(tx: Transaction, account_id: str, after: str, limit: int) -> list[VoiceRow]:
    """Everybody's voices and the account's own, in the order of their ids."""
    return records.all_records(tx, VoiceRow, _LISTED, account_id=account_id, after=after, limit=limit)


def names(tx: Transaction, account_id: str) -> list[VoiceName]:
    """The voices that can speak; emotion references cannot."""
    return records.all_records(
        tx,
        VoiceName,
        """select id, kind, name, languages from voice
           where account_id is null and retired_at is null and kind <> 'emotion'
           union all
           select id, kind, name, languages from voice where account_id = :account_id and kind <> 'emotion'
           order by id""",
        account_id=account_id,
    )


def all_voices(tx: Transaction, after: str, limit: int) -> list[LibraryVoiceRow]:
    return records.all_records(
        tx,
        LibraryVoiceRow,
        """select v.id, a.name as account_name, v.kind, v.name, v.languages, v.duration_ms, v.created_at,
                  v.retired_at
           from voice v left join account a on a.id = v.account_id
           where v.id > :after order by v.id limit :limit""",
        after=after,
        limit=limit,
    )


def built_ins(tx: Transaction) -> list[BuiltInRow]:
    return records.all_records(tx, BuiltInRow, "select id, retired_at from voice where built_in = 1")


def add_voice(tx: Transaction, new: NewVoice, now_ms: int) -> None:
    tx.do(
        """insert into voice (id, account_id, kind, name, languages, default_parameters, profile,
                              profile_version, provenance, blob_id, duration_ms, sample_rate, channels,
                              built_in, created_at)
           values (:voice_id, :account_id, :kind, :name, :languages, :default_parameters, :profile,
                   :profile_version, :provenance, :blob_id, :duration_ms, :sample_rate, :channels,
                   :built_in, :now)
           on conflict (id) do nothing""",
        **(asdict(new) | {"built_in": int(new.built_in), "now": now_ms}),
    )


def set_retired(tx: Transaction, voice_ids: Iterable[str], retired_at: int | None) -> None:
    for voice_id in voice_ids:
        tx.do("update voice set retired_at = :at where id = :id", id=voice_id, at=retired_at)


def rename(tx: Transaction, voice_id: str, account_id: str, name: str) -> int:
    return tx.run(
        "update voice set name = :name where id = :id and account_id = :account_id",
        id=voice_id,
        account_id=account_id,
        name=name,
    )


def lock_own_voice(tx: Transaction, voice_id: str, account_id: str) -> str | None:
    """Lock an own voice; returns the blob of its recording. None: the account has no such voice."""
    locked = tx.one(
        "select blob_id from voice where id = :id and account_id = :account_id for update",
        id=voice_id,
        account_id=account_id,
    )
    return None if locked is None else str(locked["blob_id"])


def remove(tx: Transaction, voice_id: str) -> None:
    """Delete the voice and every preference for it."""
    tx.do("delete from voice_preference where voice_id = :id", id=voice_id)
    tx.do("delete from voice where id = :id", id=voice_id)


def save_preference(
    tx: Transaction, account_id: str, content_account: str, voice_id: str, now_ms: int
) -> None:
    tx.do(
        """insert into voice_preference (account_id, content_account, voice_id, updated_at)
           values (:account_id, :content_account, :voice_id, :now)
           on conflict (account_id, content_account)
           do update set voice_id = excluded.voice_id, updated_at = excluded.updated_at""",
        account_id=account_id,
        content_account=content_account,
        voice_id=voice_id,
        now=now_ms,
    )


def preferences(tx: Transaction, account_id: str, limit: int) -> list[PreferenceRow]:
    return records.all_records(
        tx,
        PreferenceRow,
        """select content_account, voice_id, updated_at from voice_preference
           where account_id = :account_id order by content_account limit :limit""",
        account_id=account_id,
        limit=limit,
    )


def count_other_preferences(tx: Transaction, account_id: str, content_account: str) -> int:
    """How many other content accounts have a preference."""
    row = tx.one(
        """select count(*) as others from voice_preference
           where account_id = :account_id and content_account <> :content_account""",
        account_id=account_id,
        content_account=content_account,
    )
    assert row is not None
    return int(row["others"])
