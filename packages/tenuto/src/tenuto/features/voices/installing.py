"""Installs the built-in voices that are missing, before an API process accepts its first connection."""

from tenuto import failpoints
from tenuto.api.server import Server
from tenuto.api.service import Part, Service
from tenuto.db.database import Database
from tenuto.errors import OperatorError, StorageFailed
from tenuto.features.voices import builtin
from tenuto.file.blob import BlobStore
from tenuto.file.reasons import reason
from tenuto.ids import Ids
from tenuto.process.runtime import clock


class Voices(Part):
    """The built-in voices, in an API process."""

    def __init__(self, service: Service) -> None:
        self._database, self._blobs = service.database, service.blobs

    def open(self, server: Server) -> None:
        install_voices(self._database, self._blobs)


def install_voices(database: Database, blobs: BlobStore) -> None:
    """Install the built-in voices that are missing: bytes first, then the rows."""
    voices = builtin.built_in_voices()
    lacking = database.read(lambda tx: builtin.missing(tx, voices))
    ids = Ids(clock)
    try:
        recordings = {voice.voice_id: blobs.write(ids.new("blob"), voice.content()) for voice in lacking}
    except StorageFailed as error:
        why = reason(error.__cause__ or error)
        raise OperatorError(f"the store of bytes {why}; fix that, or correct its settings") from error
    failpoints.hit("install.after_bytes")
    now_ms = clock()
    database.write(lambda tx: builtin.install(tx, voices, recordings, now_ms=now_ms))
