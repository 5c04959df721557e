"""The rows of artifacts, blobs and uploads. Takes a transaction, never commits, decides nothing."""

from tenuto.db import records
from tenuto.db.database import Row, Transaction
from tenuto.file.blob import BlobRecord
from tenuto.file.rows import (
    ArtifactRow,
    HeldArtifactRow,
    InputRow,
    ResultRow,
    StoredRow,
    UploadRow,
)

_INPUT = """
    select id, media_type, size_bytes, sha256, metadata, blob_id, created_at, erased_at, name from artifact
    where id = :id and account_id = :account_id and job_id is null
"""


def add_blob(tx: Transaction, blob: BlobRecord, now_ms: int) -> int:
    """0 if the id has a row: only the sweep can have made it, as an id is used for one write."""
    return tx.run(
        """insert into blob (id, size_bytes, sha256, block_crcs, created_at)
           values (:id, :size_bytes, :sha256, :block_crcs, :now) on conflict (id) do nothing""",
        id=blob.blob_id,
        size_bytes=blob.size_bytes,
        sha256=blob.sha256,
        block_crcs=blob.block_crcs,
        now=now_ms,
    )


def usable_blob(tx: Transaction, blob_id: str) -> BlobRecord | None:
    """The blob, locked, unless the sweep has condemned it."""
    return _record(
        tx.one(
            """select id, size_bytes, sha256, block_crcs from blob
               where id = :id and condemned_at is null for update""",
            id=blob_id,
        )
    )


def add_artifact(
    tx: Transaction,
    artifact_id: str,
    *,
    account_id: str,
    job_id: str | None,
    media_type: str,
    blob: BlobRecord,
    metadata: str,
    now_ms: int,
    name: str | None = None,
) -> None:
    tx.do(
        """insert into artifact (id, account_id, job_id, media_type, size_bytes, sha256, blob_id, metadata,
                                 name, created_at)
           values (:id, :account_id, :job_id, :media_type, :size_bytes, :sha256, :blob_id,
                   :metadata, :name, :now)""",
        id=artifact_id,
        account_id=account_id,
        job_id=job_id,
        media_type=media_type,
        size_bytes=blob.size_bytes,
        sha256=blob.sha256,
        blob_id=blob.blob_id,
        metadata=metadata,
        name=name,
        now=now_ms,
    )


def artifact(tx: Transaction, artifact_id: str, account_id: str) -> ArtifactRow | None:
    """An artifact of this account together with its blob."""
    return records.one(
        tx,
        ArtifactRow,
        """select a.id, a.media_type, a.size_bytes, a.sha256, a.erased_at, a.blob_id, b.block_crcs
           from artifact a left join blob b on b.id = a.blob_id
           where a.id = :id and a.account_id = :account_id""",
        id=artifact_id,
        account_id=account_id,
    )


def paired(tx: Transaction) -> str | None:
    """The id of the store of bytes that the database belongs to, if it is paired."""
    row = tx.one("select id from store where number = 1")
    return None if row is None else str(row["id"])


def pair(tx: Transaction, store_id: str, now_ms: int) -> None:
    """Pair the database with this store, unless it already belongs to one."""
    tx.do(
        "insert into store (number, id, paired_at) values (1, :id, :now) on conflict (number) do nothing",
        id=store_id,
        now=now_ms,
    )


def sample_blobs(tx: Transaction, count: int) -> list[BlobRecord]:
    """The `count` oldest blobs that must exist, and as many of the newest."""
    return [
        _blob(row)
        for order in ("asc", "desc")
        for row in tx.all(
            f"""select id, size_bytes, sha256, block_crcs from blob
                where condemned_at is null order by id {order} limit :count""",  # noqa: S608 (two constants)
            count=count,
        )
    ]


def begin_sweep(tx: Transaction, worker_id: str, *, began_before: int, now_ms: int) -> int:
    """1 if this worker is to sweep."""
    changed = tx.run(
        """insert into sweep (number, began_at, worker_id) values (1, :now, :worker_id)
           on conflict (number) do nothing""",
        worker_id=worker_id,
        now=now_ms,
    )
    return changed or tx.run(
        """update sweep set began_at = :now, worker_id = :worker_id
           where number = 1 and (began_at <= :before or began_at > :now)""",
        worker_id=worker_id,
        before=began_before,
        now=now_ms,
    )


def page_end(tx: Transaction, after: str, limit: int) -> str | None:
    """The last of the `limit` blobs that follow this id; None if there are none."""
    row = tx.one(
        """select max(id) as last from (
               select id from blob where id > :after order by id limit :limit) as page""",
        after=after,
        limit=limit,
    )
    return None if row is None else row["last"]


_UNUSED = """b.condemned_at is null
             and not exists (select 1 from artifact a where a.blob_id = b.id)
             and not exists (select 1 from attempt t where t.blob_id = b.id)
             and not exists (select 1 from voice v where v.blob_id = b.id)
             and not exists (select 1 from job_recording r join job j on j.id = r.job_id
                             where r.blob_id = b.id
                               and j.state not in ('succeeded', 'failed', 'cancelled'))
             and not exists (select 1 from segment s where s.blob_id = b.id)"""
_UNREFERENCED = f"""b.created_at < :before and b.id > :after
             and (cast(:last as text) is null or b.id <= :last) and {_UNUSED}"""


def has_unreferenced(tx: Transaction, created_before: int, after: str, last: str) -> bool:
    """Whether a page has an unreferenced blob; takes no locks."""
    row = tx.one(
        f"select 1 as one from blob b where {_UNREFERENCED} limit 1",  # noqa: S608 (a constant)
        before=created_before,
        after=after,
        last=last,
    )
    return row is not None


def unreferenced(
    tx: Transaction, created_before: int, limit: int, *, after: str, last: str | None
) -> list[str]:
    """A page's unreferenced blobs, locked: orphans of workers that died between bytes and result."""
    rows = tx.all(
        f"""select b.id from blob b where {_UNREFERENCED}
            order by b.id limit :limit for update of b skip locked""",  # noqa: S608 (a constant)
        before=created_before,
        after=after,
        last=last,
        limit=limit,
    )
    return [row["id"] for row in rows]


def is_unused(tx: Transaction, blob_id: str) -> bool:
    """Whether nothing refers to the blob, of any age."""
    row = tx.one(f"select 1 as one from blob b where b.id = :id and {_UNUSED}", id=blob_id)  # noqa: S608 (a constant)
    return row is not None


def condemn_recordings(tx: Transaction, job_id: str, now_ms: int) -> None:
    """Condemn the recordings that a job was bound to, if nothing else refers to them."""
    tx.do(
        f"""update blob set condemned_at = :now where id in (
               select b.id from job_recording mine join blob b on b.id = mine.blob_id
               where mine.job_id = :job_id and {_UNUSED})""",  # noqa: S608 (a constant)
        job_id=job_id,
        now=now_ms,
    )


def condemn(tx: Transaction, blob_id: str, now_ms: int) -> int:
    return tx.run(
        "update blob set condemned_at = :now where id = :id and condemned_at is null", id=blob_id, now=now_ms
    )


def condemn_rowless(tx: Transaction, blob_id: str, now_ms: int) -> int:
    """Add a row for bytes that have none, so that a late commit of their id fails, even once removed."""
    return tx.run(
        """insert into blob (id, size_bytes, sha256, block_crcs, condemned_at, created_at)
           values (:id, 0, '', '', :now, :now)
           on conflict (id) do update set is_removed = 0, condemned_at = :now where blob.is_removed = 1""",
        id=blob_id,
        now=now_ms,
    )


def condemned(tx: Transaction, limit: int, skip: int) -> list[str]:
    """Blobs whose bytes still have to be removed, in the order in which they were condemned."""
    rows = tx.all(
        """select id from blob where condemned_at is not null and is_removed = 0
           order by condemned_at limit :limit offset :skip""",
        limit=limit,
        skip=skip,
    )
    return [row["id"] for row in rows]


def remove_condemned(tx: Transaction, blob_id: str) -> int:
    """Delete the row of bytes that were recorded: their writer is done with them."""
    return tx.run("delete from blob where id = :id and condemned_at is not null and sha256 <> ''", id=blob_id)


def mark_removed(tx: Transaction, blob_id: str) -> int:
    """Keep the row of bytes that were never recorded: a writer that was suspended must still find it."""
    return tx.run(
        "update blob set is_removed = 1 where id = :id and condemned_at is not null and sha256 = ''",
        id=blob_id,
    )


def known(tx: Transaction, blob_ids: list[str]) -> list[str]:
    """Which of these blobs have a row."""
    named = {f"id_{number}": blob_id for number, blob_id in enumerate(blob_ids)}
    places = ", ".join(f":{name}" for name in named)
    rows = tx.all(f"select id from blob where is_removed = 0 and id in ({places})", **named)  # noqa: S608
    return [row["id"] for row in rows]


def blob(tx: Transaction, blob_id: str) -> BlobRecord | None:
    """A blob that is not condemned."""
    return _record(
        tx.one(
            "select id, size_bytes, sha256, block_crcs from blob where id = :id and condemned_at is null",
            id=blob_id,
        )
    )


def recorded_blob(tx: Transaction, attempt_id: str) -> BlobRecord | None:
    return _record(
        tx.one(
            """select b.id, b.size_bytes, b.sha256, b.block_crcs
               from attempt t join blob b on b.id = t.blob_id
               where t.id = :id and b.condemned_at is null""",
            id=attempt_id,
        )
    )


def blobs_after(tx: Transaction, after: str, limit: int) -> list[BlobRecord]:
    rows = tx.all(
        """select id, size_bytes, sha256, block_crcs from blob
           where id > :after and condemned_at is null order by id limit :limit""",
        after=after,
        limit=limit,
    )
    return [_blob(row) for row in rows]


def users(tx: Transaction, blob_id: str) -> list[str]:
    """The ids of the records that refer to a blob."""
    rows = tx.all(
        """select id from artifact where blob_id = :id union select job_id from artifact where blob_id = :id
           union select id from attempt where blob_id = :id union select id from voice where blob_id = :id
           union select id from segment where blob_id = :id
           union select job_id from segment where blob_id = :id
           union select job_id from job_recording where blob_id = :id
           order by 1 limit 20""",
        id=blob_id,
    )
    return [row["id"] for row in rows if row["id"] is not None]


def upload(tx: Transaction, key_id: str, idempotency_key: str) -> UploadRow | None:
    return records.one(
        tx,
        UploadRow,
        """select request_sha256, record_id from upload_key
           where key_id = :key_id and idempotency_key = :idempotency_key""",
        key_id=key_id,
        idempotency_key=idempotency_key,
    )


def bind_upload(
    tx: Transaction, *, key_id: str, idempotency_key: str, request_sha256: str, record_id: str, now_ms: int
) -> bool:
    """False if the key is bound already."""
    changed = tx.run(
        """insert into upload_key (key_id, idempotency_key, request_sha256, record_id, created_at)
           values (:key_id, :idempotency_key, :request_sha256, :record_id, :now)
           on conflict (key_id, idempotency_key) do nothing""",
        key_id=key_id,
        idempotency_key=idempotency_key,
        request_sha256=request_sha256,
        record_id=record_id,
        now=now_ms,
    )
    return changed == 1


def stored(tx: Transaction, account_id: str) -> StoredRow:
    """The total of the account's inputs and own voices that were not erased or deleted."""
    sums = records.one(
        tx,
        StoredRow,
        """select cast(coalesce(sum(size_bytes), 0) as bigint) as bytes, count(*) as files from (
               select size_bytes from artifact
               where account_id = :account_id and job_id is null and erased_at is null
               union all
               select b.size_bytes from voice v join blob b on b.id = v.blob_id
               where v.account_id = :account_id) as uploaded""",
        account_id=account_id,
    )
    assert sums is not None, "a sum is always one row"
    return sums


def input_artifact(tx: Transaction, artifact_id: str, account_id: str) -> InputRow | None:
    """An upload of this account, not a result."""
    return records.one(tx, InputRow, _INPUT, id=artifact_id, account_id=account_id)


def locked_input(tx: Transaction, artifact_id: str, account_id: str) -> InputRow | None:
    """The same, locked against erasure."""
    return records.one(tx, InputRow, f"{_INPUT} for update", id=artifact_id, account_id=account_id)


def locked_artifact(tx: Transaction, artifact_id: str, account_id: str) -> HeldArtifactRow | None:
    return records.one(
        tx,
        HeldArtifactRow,
        """select id, job_id, blob_id, erased_at from artifact
           where id = :id and account_id = :account_id for update""",
        id=artifact_id,
        account_id=account_id,
    )


def erase(tx: Transaction, artifact_id: str, now_ms: int) -> int:
    """0 if it was erased before."""
    return tx.run(
        """update artifact set blob_id = null, name = null, erased_at = :now
           where id = :id and erased_at is null""",
        id=artifact_id,
        now=now_ms,
    )


def results(tx: Transaction, job_id: str) -> list[ResultRow]:
    """A job's artifact, erased or not; looked up through the job's row, which is indexed."""
    return records.all_records(
        tx,
        ResultRow,
        """select a.id, a.blob_id, a.metadata from job j join artifact a on a.id = j.artifact_id
           where j.id = :job_id""",
        job_id=job_id,
    )


def set_metadata(tx: Transaction, artifact_id: str, metadata: str) -> None:
    tx.do("update artifact set metadata = :metadata where id = :id", id=artifact_id, metadata=metadata)


def old_inputs(tx: Transaction, created_before: int, after: str, limit: int) -> list[tuple[str, str]]:
    """Inputs, ordered by id, with the accounts that uploaded them."""
    rows = tx.all(
        """select id, account_id from artifact
           where job_id is null and erased_at is null and created_at < :before and id > :after
           order by id limit :limit""",
        before=created_before,
        after=after,
        limit=limit,
    )
    return [(row["id"], row["account_id"]) for row in rows]


def send_with_job(tx: Transaction, artifact_id: str, job_id: str) -> None:
    tx.do("update artifact set sent_with_job_id = :job_id where id = :id", id=artifact_id, job_id=job_id)


def inputs_of_ended(tx: Transaction, ended_before: int, after: str, limit: int) -> list[tuple[str, str]]:
    """Inputs sent with jobs that ended earlier, ordered by id, with the accounts that sent them."""
    rows = tx.all(
        """select a.id, a.account_id from artifact a join job j on j.id = a.sent_with_job_id
           where a.sent_with_job_id is not null and a.erased_at is null and a.id > :after
             and j.finished_at < :before
           order by a.id limit :limit""",
        before=ended_before,
        after=after,
        limit=limit,
    )
    return [(row["id"], row["account_id"]) for row in rows]


def has_backup(tx: Transaction) -> bool:
    """Whether a backup is in progress: condemned bytes must stay for now."""
    return tx.one("select 1 as one from backup limit 1") is not None


def _record(row: Row | None) -> BlobRecord | None:
    return None if row is None else _blob(row)


def _blob(row: Row) -> BlobRecord:
    return BlobRecord(row["id"], row["size_bytes"], row["sha256"], row["block_crcs"])
