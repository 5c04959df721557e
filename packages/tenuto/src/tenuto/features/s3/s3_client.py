"""Where an S3-compatible store is, and how requests are made to it: bucket, prefix, endpoint, credentials.

Creates obstore's client, and makes two requests that it cannot make; knows no blobs. No repr shows a secret.
"""

import hashlib
import hmac
import http.client
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from obstore.store import S3Store

MAX_RETRIES = 2
"""For a request that was refused or cut off; one that stalled has used up its time and is not retried."""
CONNECT_S = 5.0
MAX_ANSWER_BYTES = 4 << 20
"""A page of a listing has at most a thousand uploads."""
_EMPTY = hashlib.sha256(b"").hexdigest()
Addressing = Literal["path", "virtual"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key pair from the environment, and the session token that comes with a temporary one."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class S3Location:
    """A bucket, or a prefix of one, that is ours alone."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    """None: Amazon's own, in the region."""
    region: str = "us-east-1"
    addressing: Addressing = "path"
    """How the bucket is named: in the path, or as the host's first label, which `endpoint` then includes."""
    ca_certificates: str | None = field(default=None, repr=False)
    """PEM certificates trusted in addition to the system's."""
    timeout_s: float = 20.0
    """For one request, from connecting to the last byte of the response."""
    credentials: Credentials | None = None
    """None: obstore finds them, from a web identity or a container's or instance's role."""

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
    """Credentials from the standard variables; None unless both keys are set."""
    key, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return Credentials(key, secret, environment.get("AWS_SESSION_TOKEN") or None)


def client(place: S3Location) -> S3Store:
    """A client whose requests time out. Its paths are relative to the prefix."""
    credentials, timeout = place.credentials, timedelta(seconds=place.timeout_s)
    connect = timedelta(seconds=min(CONNECT_S, place.timeout_s))
    options = {"allow_http": True, "timeout": timeout, "connect_timeout": connect}
    config = {
        "region": place.region,
        "virtual_hosted_style_request": place.addressing == "virtual",
        # Not every store supports bulk deletes, and we delete one by one.
        "disable_bulk_delete": True,
    }
    if place.endpoint is not None:
        # A variable with an endpoint for S3 takes precedence over the general one, so ours is set as both.
        config |= {"endpoint": place.endpoint, "aws_endpoint_url_s3": place.endpoint}
    if credentials is not None:
        config |= {
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
        }
        config |= {"session_token": credentials.session_token} if credentials.session_token else {}
    if place.ca_certificates is not None:
        options["root_certificate"] = place.ca_certificates
    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config=config,  # type: ignore[arg-type]  # a dict filled step by step
        client_options=options,  # type: ignore[arg-type]  # the same
        retry_config={"max_retries": MAX_RETRIES, "retry_timeout": timeout},
    )


class RequestFailed(Exception):
    """The store did not do what it was asked, or did not answer."""


class Uploads:
    """Lists abandoned multipart uploads, and aborts them so that they cost nothing more.

    obstore can do neither, so these two requests are signed here: AWS Signature Version 4,
    https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html. Used from any thread.
    """

    def __init__(self, place: S3Location, clock: Callable[[], time.struct_time] = time.gmtime) -> None:
        self._place = place
        self._clock = clock
        self._base = urlsplit(place.base_url)
        self._tls: ssl.SSLContext | None = None

    def end(self, key: str) -> int:
        """Aborts every upload to this key (relative to the prefix); returns how many. Raises RequestFailed.

        Without a key pair nothing can be signed, and it returns 0: such a bucket needs a lifecycle rule.
        """
        credentials = self._place.credentials
        if credentials is None:
            return 0
        begun = [(name, upload_id) for name, upload_id in self.begun(key) if name == self._whole(key)]
        for name, upload_id in begun:
            self._ask("DELETE", f"/{name}", {"uploadId": upload_id}, credentials, gone_is_fine=True)
        return len(begun)

    def begun(self, beginning: str) -> list[tuple[str, str]]:
        """Key (with the prefix) and id of each upload whose key begins like this, at most a thousand."""
        credentials = self._place.credentials
        if credentials is None:
            return []
        answer = self._ask("GET", "", {"prefix": self._whole(beginning), "uploads": ""}, credentials)
        try:
            # The operator trusts the store, its response is bounded, and expat limits entity expansion.
            listing = ElementTree.fromstring(answer)
        except ElementTree.ParseError as error:
            raise RequestFailed("the listing of uploads is not XML") from error
        uploads = [upload for upload in listing.iter() if upload.tag.rpartition("}")[2] == "Upload"]
        fields = [{field.tag.rpartition("}")[2]: field.text for field in upload} for upload in uploads]
        return [(str(upload["Key"]), str(upload["UploadId"])) for upload in fields if len(upload) > 1]

    def _whole(self, key: str) -> str:
        return f"{self._place.prefix}/{key}" if self._place.prefix else key

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        credentials: Credentials,
        *,
        gone_is_fine: bool = False,
    ) -> bytes:
        path = quote(self._base.path + path)
        asked = "&".join(f"{quote(name, safe='')}={quote(query[name], safe='')}" for name in sorted(query))
        headers = self._signed(method, path, asked, credentials)
        connection = self._connection()
        try:
            connection.request(method, f"{path or '/'}?{asked}", headers=headers)
            answer = connection.getresponse()
            content = answer.read(MAX_ANSWER_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise RequestFailed(f"no answer: {type(error).__name__}") from error
        finally:
            connection.close()
        if answer.status // 100 != 2 and not (gone_is_fine and answer.status == 404):
            raise RequestFailed(f"{answer.status} {answer.reason}")
        if len(content) > MAX_ANSWER_BYTES:
            raise RequestFailed("the answer is longer than it may be")
        return content

    def _connection(self) -> http.client.HTTPConnection:
        host, port, timeout_s = self._base.hostname or "", self._base.port, self._place.timeout_s
        if self._base.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        if self._tls is None:
            self._tls = ssl.create_default_context()
            if self._place.ca_certificates is not None:
                self._tls.load_verify_locations(cadata=self._place.ca_certificates)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._tls)

    def _signed(self, method: str, path: str, query: str, credentials: Credentials) -> dict[str, str]:
        now = self._clock()
        at, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
        headers = {"host": self._base.netloc, "x-amz-content-sha256": _EMPTY, "x-amz-date": at}
        if credentials.session_token is not None:
            headers["x-amz-security-token"] = credentials.session_token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        request = "\n".join((method, path or "/", query, lines, names, _EMPTY))
        scope = f"{day}/{self._place.region}/s3/aws4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        key = f"AWS4{credentials.secret_access_key}".encode()
        for step in scope.split("/"):
            key = hmac.digest(key, step.encode(), "sha256")
        text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{digest}"
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        who = f"Credential={credentials.access_key_id}/{scope}"
        return headers | {
            "authorization": f"AWS4-HMAC-SHA256 {who}, SignedHeaders={names}, Signature={signature}"
        }
