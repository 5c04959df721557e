"""What an attempt reads before its engine runs: stored bytes, checked as they are read."""

from tenuto import failpoints
from tenuto.artifacts import operations as artifacts
from tenuto.blobs.blob import BlobRecord
from tenuto.errors import ArtifactUnavailable, CorruptBlob
from tenuto.hosts.host import EngineFailed
from tenuto.worker.durable import read
from tenuto.worker.parts import Parts


def read_input(parts: Parts, blob_id: str, what: str) -> bytes:
    """The bytes of an input, waited for while the database is away.

    Raises EngineFailed with `input_unreadable`: damaged bytes fail a job at once, missing ones after a few
    tries, because a store of bytes may be away as well.
    """
    record = input_record(parts, blob_id, what)
    try:
        content = parts.blobs.read_all(record)
        failpoints.hit("input.after_read")
        return content
    except CorruptBlob as error:
        raise EngineFailed("input_unreadable", f"{what} is damaged", transient=False) from error
    except ArtifactUnavailable as error:
        raise EngineFailed("input_unreadable", f"{what} cannot be read", transient=True) from error


def input_record(parts: Parts, blob_id: str, what: str) -> BlobRecord:
    """Where the bytes of an input are. Raises EngineFailed when they have been erased."""
    record = read(parts, lambda tx: artifacts.blob_record(tx, blob_id))
    if record is None:
        raise EngineFailed("input_unreadable", f"{what} is not there any more", transient=False)
    return record
