"""Pairing a database with its store of bytes: both hold the same random id.

Rows name bytes, and the sweep removes bytes that no row names, so a database beside the wrong store loses or
destroys content. The first start writes the id into the store and then into the database; every later start
compares them. A restored service has no id yet and is paired once its bytes are seen to be there.
"""

from tenuto.db.database import Database, Transaction
from tenuto.errors import ArtifactUnavailable, BucketMissing, CorruptBlob, OperatorError, StoreUnreachable
from tenuto.file import store
from tenuto.file.blob import BlobRecord, BlobStore
from tenuto.ids import Ids

SAMPLED = 20
"""How many of the oldest and newest blobs are looked up before ids are assigned; finding one is enough."""
ANY_AGE_MS = 1 << 62


def pair(
    database: Database, blobs: BlobStore, ids: Ids, *, place: str, now_ms: int, before_ms: int = ANY_AGE_MS
) -> None:
    """Compare the two ids, or assign one to both if neither has any. `place` names the store in messages.

    `before_ms`: younger bytes cannot be another database's. A process whose store was unreachable at its
    start may have written some by the time it answers, and their rows follow later.

    Raises OperatorError if the two do not belong together, StoreUnreachable if the store does not answer.
    """
    if database.read(store.paired) is None:
        stranger = _stranger(database, blobs, place, before_ms)
        if stranger is None:
            # The store first: an id in the database then implies that some store holds it.
            named = _store_id(blobs) or blobs.name_store(ids.new("store"))
            database.write(lambda tx: store.pair(tx, named, now_ms))
        elif database.read(store.paired) is None:
            # Read again: the bytes may come from another process that has paired the two meanwhile.
            raise OperatorError(stranger)
    known = database.read(store.paired)
    assert known is not None, "it is paired now, and stays so"
    _compare(known, blobs.store_id(), place)


def is_paired(database: Database) -> bool:
    """Whether the database belongs to a store."""
    return database.read(store.paired) is not None


def known_id(tx: Transaction) -> str | None:
    """The id of the store that the database belongs to; it changes with a restore."""
    return store.paired(tx)


def check(database: Database, blobs: BlobStore, *, place: str) -> None:
    """Compare the two ids without writing; a database without one passes. Raises the same errors."""
    known = database.read(store.paired)
    if known is not None:
        _compare(known, blobs.store_id(), place)


def refuse_missing(database: Database, *, place: str) -> None:
    """For a missing store: raise OperatorError if the database belongs to one."""
    known = database.read(store.paired)
    if known is not None:
        _compare(known, None, place)


def _compare(known: str, named: str | None, place: str) -> None:
    if named == known:
        return
    right = (
        "set `blobs` and the data folder to the place that this database was started with,"
        " or `database` to the one that belongs here"
    )
    if named is not None:
        raise OperatorError(
            f"the database belongs to the store of bytes {known}, and {place} is {named}; {right}"
        )
    raise OperatorError(
        f"the database belongs to the store of bytes {known}, and {place} is not that store; {right}."
        f' If only its file store.json was lost, write it again: {{"store_id": "{known}"}}'
    )


def _stranger(database: Database, blobs: BlobStore, place: str, before_ms: int) -> str | None:
    """Why an unpaired database and store cannot belong together: only one of them knows of bytes."""
    sample = database.read(lambda tx: store.sample_blobs(tx, SAMPLED))
    if sample and not any(_is_there(blobs, record) for record in sample):
        return (
            f"the database refers to blobs, but {place} has none of the {len(sample)} that were looked up;"
            " set `blobs` and the data folder to the place where they are"
        )
    if not sample and _holds_any(blobs, before_ms):
        return (
            f"{place} holds the bytes of another database, which this one would sweep away;"
            " set `database` to the one that belongs here, or `blobs` and the data folder to an empty place"
        )
    return None


# Some stores create a bucket with its first object: a missing bucket there counts as an empty one.
# Elsewhere the id cannot be written, and nothing is paired.


def _holds_any(blobs: BlobStore, before_ms: int) -> bool:
    try:
        return next(iter(blobs.ids(before_ms)), None) is not None
    except BucketMissing:
        return False


def _store_id(blobs: BlobStore) -> str | None:
    try:
        return blobs.store_id()
    except BucketMissing:
        return None


def _is_there(blobs: BlobStore, record: BlobRecord) -> bool:
    try:
        for _ in blobs.read(record, 0, 0):
            break
    except StoreUnreachable:
        raise
    except ArtifactUnavailable:
        return False
    except CorruptBlob:
        return True
    return True
