"""Does a store of blobs do what it owes? A small blob is written, read, refused the second time, removed."""

from tenuto.blobs.blob import BlobStore
from tenuto.blobs.reasons import reason
from tenuto.errors import OperatorError, StorageFailed, StoreUnreachableForWrites, TenutoError


def probe(store: BlobStore, blob_id: str) -> None:
    """Raises OperatorError, which says what it does not do; nothing is left but what it would not remove."""
    step = "written"
    try:
        record = store.write(blob_id, b"probe")
        step = "read"
        store.read_all(record)
        step = "refused a second time"
        try:
            store.write(blob_id, b"other")
        except StoreUnreachableForWrites:
            raise
        except StorageFailed:
            pass
        else:
            raise OperatorError("it lets an id be written twice; it has to honour If-None-Match: *")
        step = "removed"
    except TenutoError as error:
        _remove(store, blob_id)
        raise _told(error, step) from error
    try:
        store.delete(blob_id)
    except TenutoError as error:
        raise _told(error, step) from error


def _remove(store: BlobStore, blob_id: str) -> None:
    try:
        store.delete(blob_id)
    except StorageFailed:
        return  # The sweep finds it.


def _told(error: TenutoError, step: str) -> OperatorError:
    if isinstance(error, OperatorError):
        return error
    cause = error.message if error.__cause__ is None else f"the store {reason(error.__cause__)}"
    return OperatorError(f"a blob could not be {step}: {cause}")
