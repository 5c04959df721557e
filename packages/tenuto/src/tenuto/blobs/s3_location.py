"""Where an S3-compatible store is and how it is spoken to: bucket, prefix, endpoint, credentials, patience.

Makes the client of obstore; knows no blobs. Secrets are kept out of every repr.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from urllib.parse import quote

from obstore.store import S3Store

MAX_RETRIES = 2
"""Of a request that was refused or cut; one that stalled has used its time up and is not tried again."""
CONNECT_S = 5.0
Addressing = Literal["path", "virtual"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """A pair of keys from the environment, and the token that comes with one that is lent for a while."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class S3Location:
    """A bucket, or a prefix of one, that is ours alone."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    """None: Amazon's own, of the region."""
    region: str = "us-east-1"
    addressing: Addressing = "path"
    """How the bucket is named: in the path, or as the host's first label, which `endpoint` then has."""
    ca_certificates: str | None = field(default=None, repr=False)
    """Trusted besides the system's: PEM."""
    timeout_s: float = 20.0
    """Of one request, from connecting to the last byte of its answer."""
    credentials: Credentials | None = None
    """None: obstore finds them: a web identity, a container's or an instance's role."""

    @property
    def base_url(self) -> str:
        """The bucket's address, without a slash at its end."""
        if self.endpoint is None:
            return f"https://s3.{self.region}.amazonaws.com/{quote(self.bucket)}"
        base = self.endpoint.rstrip("/")
        return base if self.addressing == "virtual" else f"{base}/{quote(self.bucket)}"

    def __str__(self) -> str:
        where = f" at {self.endpoint}" if self.endpoint else ""
        return f"s3://{self.bucket}/{self.prefix}{where}"


def credentials_from(environment: Mapping[str, str]) -> Credentials | None:
    """The standard variables, all or none of them."""
    key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return Credentials(key, secret, environment.get("AWS_SESSION_TOKEN") or None)


def client(place: S3Location) -> S3Store:
    """A client whose requests end in time. Its paths are relative to the prefix."""
    kept, timeout = place.credentials, timedelta(seconds=place.timeout_s)
    connect = timedelta(seconds=min(CONNECT_S, place.timeout_s))
    options = {"allow_http": True, "timeout": timeout, "connect_timeout": connect}
    config = {
        "region": place.region,
        "virtual_hosted_style_request": place.addressing == "virtual",
        # The request for many at once is not known everywhere, and we delete one by one.
        "disable_bulk_delete": True,
    }
    if place.endpoint is not None:
        # Amazon's own for S3 goes before the general one where a variable sets it, so ours is set as both.
        config |= {"endpoint": place.endpoint, "aws_endpoint_url_s3": place.endpoint}
    if kept is not None:
        config |= {"access_key_id": kept.access_key_id, "secret_access_key": kept.secret_access_key}
        config |= {"session_token": kept.session_token} if kept.session_token else {}
    if place.ca_certificates is not None:
        options["root_certificate"] = place.ca_certificates
    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config=config,  # type: ignore[arg-type]  # a dict that is filled step by step
        client_options=options,  # type: ignore[arg-type]  # the same
        retry_config={"max_retries": MAX_RETRIES, "retry_timeout": timeout},
    )
