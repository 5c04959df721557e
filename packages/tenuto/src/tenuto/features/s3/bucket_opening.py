"""Opens the bucket that the settings name, and probes whether its store does what it must."""

import ssl
from collections.abc import Mapping
from pathlib import Path

from tenuto.config import Settings
from tenuto.config.storage import bucket_of
from tenuto.errors import OperatorError, StorageFailed, StoreUnreachableForWrites, TenutoError
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import S3Location, credentials_from
from tenuto.features.s3.settings import BucketSettings
from tenuto.file.blob import BlobStore
from tenuto.file.reasons import reason

_NONE = "none"
# With any of these, obstore's client finds credentials by itself.
_OTHER_WAYS = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def open_bucket(settings: Settings, environment: Mapping[str, str]) -> S3Blobs:
    """A bucket. Raises OperatorError; sends no request."""
    return S3Blobs(_place(settings, environment))


def _place(settings: Settings, environment: Mapping[str, str]) -> S3Location:
    bucket = bucket_of(settings.blobs)
    assert bucket is not None, "the setting names a bucket"
    own = settings.of(BucketSettings)
    endpoint = None if own.s3_endpoint == _NONE else own.s3_endpoint
    credentials = credentials_from(environment)
    # On Amazon's machines obstore asks for the instance's role; elsewhere nothing would answer.
    if credentials is None and endpoint is not None and not any(environment.get(way) for way in _OTHER_WAYS):
        raise OperatorError(f"no keys for {settings.blobs}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1"
    return S3Location(
        bucket=bucket.name,
        prefix=bucket.prefix,
        endpoint=endpoint,
        region=region if own.s3_region == _NONE else own.s3_region,
        addressing=own.s3_addressing,
        ca_certificates=None if own.s3_ca_file == _NONE else _certificates(own.s3_ca_file),
        timeout_s=own.s3_timeout_s,
        credentials=credentials,
    )


def _certificates(name: str) -> str:
    try:
        certificates = Path(name).expanduser().read_text("ascii")
        # obstore would report bad certificates only at the first request, and less clearly.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificates)
        return certificates
    except (OSError, ValueError) as error:
        raise OperatorError(
            f"s3_ca_file: {name} cannot be read as PEM; name a file of certificates"
        ) from error


def probe(store: BlobStore, blob_id: str) -> None:
    """Raises OperatorError if the store does not do what it must; leaves only what it failed to remove."""
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
        raise _described(error, step) from error
    try:
        store.delete(blob_id)
    except TenutoError as error:
        raise _described(error, step) from error


def _remove(store: BlobStore, blob_id: str) -> None:
    try:
        store.delete(blob_id)
    except StorageFailed:
        return  # The sweep will find it.


def _described(error: TenutoError, step: str) -> OperatorError:
    if isinstance(error, OperatorError):
        return error
    cause = error.message if error.__cause__ is None else f"the store {reason(error.__cause__)}"
    return OperatorError(f"a blob could not be {step}: {cause}")
