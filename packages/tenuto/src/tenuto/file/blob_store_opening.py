"""Opens the store of blobs that the settings name."""

from collections.abc import Mapping

from tenuto.config import Settings
from tenuto.config.storage import DIRECTORY
from tenuto.errors import OperatorError
from tenuto.feature import features
from tenuto.file.blob import BlobStore
from tenuto.file.directory import DirectoryBlobs


def open_store(settings: Settings, environment: Mapping[str, str]) -> BlobStore:
    """A folder in the data folder, or what a feature opens at an address. Raises OperatorError."""
    if settings.blobs == DIRECTORY:
        return DirectoryBlobs(settings.folder / "blobs")
    scheme = settings.blobs.partition("://")[0]
    for feature in features().values():
        if scheme in feature.stores:
            store: BlobStore = feature.part(feature.stores[scheme])(settings, environment)
            return store
    raise OperatorError(f"nothing that is installed opens {settings.blobs}")
